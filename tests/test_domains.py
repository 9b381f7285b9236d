"""Streams of the same classes in every task: CIFAR-100 by its superclasses, and any stream turned."""

import numpy as np
import pytest

from data_makers import make_cifar, real_data
from samc.errors import ConfigError, DataError
from samc.presets import preset_values
from samc.streams import open_stream
from samc.streams.base import split
from samc.streams.names import class_names
from samc.streams.rotated import rotated, shares, turned
from test_streams import dataset


def as_rows(task):
    return {(image.tobytes(), int(label)) for image, label in zip(task.x.numpy(), task.y, strict=True)}


# -- superclasses


@pytest.mark.parametrize("folder", ["cifar-100-python", "cifar-100-binary"])
def test_superclasses_have_a_subclass_in_each_of_five_tasks(folder, tmp_path, monkeypatch):
    """In the made files, fine label 5·c + k is of superclass c; each task has the k-th of all."""
    make_cifar(tmp_path, folder, monkeypatch)
    stream = open_stream("split-cifar100-domains", data_dir=tmp_path)
    assert stream.task_classes == (tuple(range(20)),) * 5
    assert stream.class_names[:2] == ("aquatic_mammals", "fish")  # which the made files do not name
    assert class_names(stream)[0] == "aquatic mammals"
    fine = open_stream("split-cifar100", data_dir=tmp_path, class_order="natural")
    by_label = {label: set() for label in range(100)}
    for task in fine:
        for image, label in zip(task.x.numpy(), task.y.tolist(), strict=True):
            by_label[label].add(image.tobytes())
    for number, task in enumerate(stream):
        assert len(task.x) == len(task.test_x) == 40
        for image, label in zip(task.x.numpy(), task.y.tolist(), strict=True):
            assert image.tobytes() in by_label[5 * label + number]


@pytest.mark.slow
def test_the_real_superclasses():
    stream = open_stream("split-cifar100-domains", data_dir=real_data("cifar-100-python"))
    assert stream.class_names[:2] == ("aquatic_mammals", "fish")
    assert [len(task.x) for task in stream] == [10_000] * 5
    assert [np.bincount(task.y).tolist() for task in stream] == [[500] * 20] * 5
    assert [np.bincount(task.test_y).tolist() for task in stream] == [[100] * 20] * 5
    assert stream.source == "CIFAR-100, official files, checksums verified"


def test_labels_that_are_not_five_to_each_of_twenty_are_refused(tmp_path, monkeypatch):
    make_cifar(tmp_path, "cifar-100-binary", monkeypatch)
    monkeypatch.setattr(
        "samc.streams.cifar.read_binary", lambda *_: (np.zeros((4, 3072), np.uint8), np.zeros((4, 2), int))
    )
    with pytest.raises(DataError, match="not five to each of twenty"):
        open_stream("split-cifar100-domains", data_dir=tmp_path)


# -- turned


def test_images_are_turned_by_their_tasks_share_of_a_half_turn():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (4, 6, 6, 3), dtype=np.uint8)
    found = turned(x, np.array([0, 1, 1, 0]), tasks=2)  # by nothing, and by a quarter turn
    assert np.array_equal(found[[0, 3]], x[[0, 3]])
    assert np.array_equal(found[1], np.rot90(x[1]))
    assert np.array_equal(found[2], np.rot90(x[2]))
    grey = turned(x[..., :1], np.array([1, 0, 0, 0]), tasks=2)
    assert np.array_equal(grey[0], np.rot90(x[0, ..., :1]))


def test_what_a_turned_image_does_not_cover_is_black():
    white = np.full((1, 9, 9, 3), 255, np.uint8)
    found = turned(white, np.array([1]), tasks=4)[0]  # by an eighth of a turn
    assert found[4, 4].tolist() == [255] * 3
    assert found[0, 0].tolist() == [0] * 3


def test_each_class_is_shared_out_evenly():
    made = dataset(classes=2, per_class=7)
    assert shares(made, made.y, 3, "training").tolist() == [0, 1, 2, 0, 1, 2, 0] * 2


def test_every_image_is_in_one_task_and_every_class_in_all():
    plain, stream = open_stream("split-synthetic"), open_stream("rotated-split-synthetic")
    assert stream.task_classes == (tuple(range(20)),) * 5
    assert [len(task.x) for task in stream] == [560] * 5
    assert [np.bincount(task.y).tolist() for task in stream] == [[28] * 20] * 5
    assert [np.bincount(task.test_y).tolist() for task in stream] == [[5] * 20] * 5
    assert as_rows(stream[0]) <= set().union(*map(as_rows, plain))  # which is not turned
    assert not as_rows(stream[1]) & set().union(*map(as_rows, plain))
    assert "turned by k/5 of 180 degrees" in stream.source


def test_fewer_tasks_are_the_first_of_all():
    every, two = open_stream("rotated-split-synthetic"), open_stream("rotated-split-synthetic", n_tasks=2)
    assert len(two) == 2
    assert all(as_rows(mine) == as_rows(theirs) for mine, theirs in zip(two, every, strict=False))
    assert len(open_stream("rotated-split-synthetic", n_tasks=1, samples_per_task=30)[0].x) == 30


def test_a_tenth_of_each_class_in_each_task_is_held_out():
    whole = open_stream("rotated-split-synthetic")
    held = open_stream("rotated-split-synthetic", tested_on="held-out")
    for mine, task in zip(held, whole, strict=True):
        assert (len(mine.x), len(mine.test_x)) == (20 * 25, 20 * 3)
        assert as_rows(mine) < as_rows(task)
        assert np.bincount(mine.test_y).tolist() == [3] * 20


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("rotated-split-cifar", {}, "unknown dataset 'rotated-split-cifar'"),
        ("rotated-split-synthetic", {"n_tasks": 6}, "has 5 domains, got n-tasks 6"),
        ("rotated-split-synthetic", {"class_order": "shuffled"}, "has all classes; leave class-order out"),
        ("rotated-split-synthetic", {"image_size": 16}, "image-size is for your own images"),
    ],
)
def test_streams_that_cannot_be_made(name, given, message):
    with pytest.raises(ConfigError, match=message):
        open_stream(name, **given)


def test_own_data_say_how_many_angles_they_shall_have(tmp_path):
    made = dataset(per_class=10)
    path = tmp_path / "own.npz"
    np.savez(path, x=made.x, y=made.y)
    stream = open_stream(f"rotated-npz:{path}", n_tasks=2)
    assert (len(stream), stream.num_classes) == (2, 6)
    with pytest.raises(ConfigError, match="say how many angles"):
        open_stream(f"rotated-npz:{path}")
    with pytest.raises(DataError, match="class '0' has 8 training images, too few for 9 tasks"):
        open_stream(f"rotated-npz:{path}", n_tasks=9)


def test_a_stream_of_domains_is_not_turned_again(tmp_path, monkeypatch):
    make_cifar(tmp_path, "cifar-100-python", monkeypatch)
    with pytest.raises(ConfigError, match="leave rotated- out"):
        open_stream("rotated-split-cifar100-domains", data_dir=tmp_path)


def test_a_domain_without_a_tenth_is_refused():
    with pytest.raises(DataError, match="fewer than 10 images in a domain"):
        split(rotated(dataset(per_class=14, test_x=dataset().x, test_y=dataset().y), 2), tested_on="held-out")


def test_presets_are_those_of_the_stream_that_the_images_are_of():
    for name in ("rotated-split-cifar100", "split-cifar100-domains"):
        assert preset_values("paper", name, "gem") == preset_values("paper", "split-cifar100", "gem")
