"""Classes are called by their names, with the data at hand and without it."""

import json

import numpy as np
import pytest

import samc
from data_makers import real_data
from record_makers import record as made
from samc.errors import DataError
from samc.record import RunRecord
from samc.streams import open_stream, split_synthetic, stream_of
from samc.streams.names import class_names, listed, name_of, names_without_data

X, Y = np.zeros((4, 8, 8, 3), np.uint8), np.array([0, 1, 0, 1])


def test_the_packages_lists_are_whole():
    assert [len(set(listed()[name])) for name in ("cifar10", "cifar100", "mini-imagenet")] == [10, 100, 100]
    assert sorted(listed()["cifar100"]) == listed()["cifar100"]
    assert sorted(listed()["mini-imagenet"]) == list(listed()["mini-imagenet"])
    assert len(set(listed()["mini-imagenet"].values())) == 100


def test_the_embedded_stream_needs_no_data_to_name_its_classes():
    stream = split_synthetic(0, train_per_class=1, test_per_class=1)
    assert class_names(stream) == names_without_data("split-synthetic")
    assert class_names(stream)[0] == "plain red disc"


@pytest.mark.parametrize(
    ("name", "label", "word"),
    [
        ("split-cifar10", 9, "truck"),
        ("split-cifar100", 1, "aquarium fish"),
        ("split-mini-imagenet", 0, "house finch"),
        ("split-mini-imagenet", 99, "ear"),
    ],
)
def test_the_papers_streams_are_known_by_name(name, label, word):
    assert names_without_data(name)[label] == word


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "folder"), [("split-cifar100", "cifar-100-python"), ("split-mini-imagenet", "mini-imagenet")]
)
def test_the_packages_names_are_the_data_sets_own(name, folder):
    stream = open_stream(name, data_dir=real_data(folder), samples_per_task=1)
    assert class_names(stream) == names_without_data(name)


def test_own_classes_keep_their_names_and_numbers_are_no_names():
    assert class_names(stream_of([(X, Y)], class_names=("my_cat", "<b>"))) == ("my_cat", "<b>")
    assert class_names(stream_of([(X, Y)])) is None
    assert names_without_data("folder:pets") is None


def test_a_class_without_a_name_is_called_by_its_number():
    assert [name_of(1, ("a", "b")), name_of(2, ("a", "b")), name_of(7, None)] == ["b", "class 2", "class 7"]


def test_a_run_writes_the_names_into_its_record(tmp_path):
    learner = samc.Finetune(image_shape=(3, 8, 8), backbone="mlp")
    record = samc.run(stream_of([(X, Y)], class_names=("cat", "dog")), learner)
    record.save(tmp_path)
    assert RunRecord.load(tmp_path).class_name(1) == "dog"
    assert samc.run([(X, Y)], learner).class_names is None


def test_records_from_before_names_were_kept_name_the_known_streams():
    record = made(model="er")
    assert record.class_names is None
    assert record.class_name(0) == names_without_data(record.fingerprint["stream"])[0]


@pytest.mark.parametrize("names", [["a", 1], "ab", {"a": "b"}, ["a"] * 65_537])
def test_names_that_are_none_are_refused(tmp_path, names):
    path = made(model="er").save(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"class_names": names}))
    with pytest.raises(DataError, match="class_names"):
        RunRecord.load(tmp_path)
