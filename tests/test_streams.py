"""Cutting data into tasks, the order of batches, and the embedded stream."""

import hashlib

import numpy as np
import pytest
import torch

from samc.errors import ConfigError, DataError
from samc.streams import open_stream, split_synthetic
from samc.streams.base import Dataset, check, split
from samc.streams.synthetic import attributes, class_names


def dataset(classes=6, per_class=7, **changes):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(classes), per_class)
    x = rng.integers(0, 256, (len(y), 5, 4, 3), dtype=np.uint8)
    parts = {"x": x, "y": y, "test_x": x[::7], "test_y": y[::7], **changes}
    return Dataset("made", class_names=tuple("abcdefghij"[:classes]), source="test", **parts)


def test_tasks_partition_the_data_and_keep_their_labels():
    made = dataset()
    stream = split(made, classes_per_task=2)
    assert stream.task_classes == ((0, 1), (2, 3), (4, 5))
    assert stream.image_shape == (3, 5, 4)
    for task in stream:
        rows = np.flatnonzero(np.isin(made.y, task.classes))
        assert np.array_equal(task.x.permute(0, 2, 3, 1).numpy(), made.x[rows])
        assert task.y.tolist() == made.y[rows].tolist()
        assert sorted(set(task.test_y.tolist())) == list(task.classes)


def test_cutting():
    made = dataset()
    assert split(made, classes_per_task=2, n_tasks=2).task_classes == ((0, 1), (2, 3))
    assert split(made, n_tasks=4).task_classes == ((0, 1), (2, 3), (4,), (5,))
    assert split(made).task_classes == ((0, 1, 2, 3, 4, 5),)
    assert split(made, classes_per_task=2, class_order="5,3,0,1").task_classes == ((5, 3), (0, 1))
    shuffled = split(made, classes_per_task=2, class_order="shuffled", seed=1).task_classes
    assert sorted(sum(shuffled, ())) == list(range(6))
    assert shuffled != split(made, classes_per_task=2, class_order="shuffled", seed=2).task_classes


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        ({"n_tasks": 0}, "made can be cut into 1 to 6 tasks, got n-tasks 0"),
        ({"n_tasks": 4, "classes_per_task": 2}, "made can be cut into 1 to 3 tasks, got n-tasks 4"),
        ({"class_order": "0,1,2", "classes_per_task": 2}, "made has 2 classes per task; class-order names 3"),
        ({"class_order": "0,0"}, "class-order names each class once, from 0 to 5; got 0,0"),
        ({"class_order": "0,6"}, "class-order names each class once, from 0 to 5"),
        ({"class_order": "naturel"}, "class-order is natural, shuffled or numbers like 3,1,2; got 'naturel'"),
        ({"samples_per_task": 0}, "samples-per-task is at least 1, got 0"),
    ],
)
def test_cuts_that_cannot_be_made(cut, message):
    with pytest.raises(ConfigError, match=message):
        split(dataset(), **cut)


def test_batches_are_seeded_complete_and_uint8():
    task = split(dataset(), n_tasks=2, seed=3)[1]
    first, again = (list(task.batches(4)) for _ in range(2))
    assert all(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in zip(first, again, strict=True))
    assert len(first) == task.steps(4) == 6
    assert [len(y) for _, y in first] == [4] * 5 + [1]
    assert first[0][0].dtype == torch.uint8
    assert sorted(torch.cat([y for _, y in first]).tolist()) == sorted(task.y.tolist())
    other = split(dataset(), n_tasks=2, seed=4)[1]
    assert not torch.equal(torch.cat([y for _, y in first]), torch.cat([y for _, y in other.batches(4)]))
    epochs = torch.cat([y for _, y in task.batches(21, epochs=2)]).view(2, 21)
    assert not torch.equal(epochs[0], epochs[1])
    assert torch.equal(epochs[0].sort().values, epochs[1].sort().values)


@pytest.mark.parametrize(
    ("seed", "cut", "digest"),
    [
        (0, {}, "66058848b71094fbb2692768584a524939939f1b"),
        (3, {"class_order": "shuffled", "samples_per_task": 17}, "c45a120a5f12ffaaf99287224b23d2b9c05303bb"),
    ],
)
def test_batches_of_a_seed_are_those_of_the_runs_on_record(seed, cut, digest):
    found = hashlib.sha1()
    for task in split_synthetic(seed, train_per_class=6, test_per_class=2, **cut):
        for x, y in task.batches(10, epochs=2):
            for content in (x.permute(0, 2, 3, 1).contiguous().numpy(), y.numpy(), str(x.stride()).encode()):
                found.update(content)
    assert found.hexdigest() == digest


def test_samples_per_task_cuts_training_images_only():
    stream = split(dataset(), n_tasks=2, samples_per_task=5, seed=0)
    assert [len(task.x) for task in stream] == [5, 5]
    assert [len(task.test_x) for task in stream] == [3, 3]
    same, other = (split(dataset(), n_tasks=2, samples_per_task=5, seed=s) for s in (0, 1))
    assert torch.equal(stream[0].x, same[0].x)
    assert not torch.equal(stream[0].x, other[0].x)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.zeros((42, 5, 4, 3))}, "training images are uint8 from 0 to 255, got float64; convert them first"),
        ({"x": np.full((42, 5, 4, 3), np.nan)}, "got float64 with 2520 NaN values"),
        (
            {"test_x": np.zeros((6, 5, 5, 3), np.uint8)},
            r"test images are \(n, height, width, 1 or 3\), all of one size",
        ),
        ({"y": np.zeros(41, int)}, r"training labels are one whole number per image; got int64 \(41,\) for 42"),
        ({"y": np.repeat(np.arange(6), 7) + 1}, "training labels go from 0 to 5; got 1 to 6"),
        ({"y": np.repeat([0, 1, 2, 4, 4, 5], 7)}, "class 'd' has no training image; add some or leave the class out"),
    ],
)
def test_data_that_makes_no_sense(changes, message):
    with pytest.raises(DataError, match=message):
        check(dataset(**changes))


def test_any_two_properties_tell_the_synthetic_classes_of_a_task_apart_and_no_single_one_does():
    kinds = attributes()
    assert len({tuple(kind) for kind in kinds}) == len(class_names()) == len(set(class_names())) == 20
    for task in kinds.reshape(5, 4, 3):
        for column in range(3):
            assert len(set(task[:, column])) == 2
            assert len({tuple(row) for row in np.delete(task, column, axis=1)}) == 4


def test_the_synthetic_stream_is_made_from_its_seed():
    first, again, other = (split_synthetic(seed, train_per_class=3, test_per_class=2) for seed in (0, 0, 1))
    assert first.task_classes == tuple(tuple(range(4 * t, 4 * t + 4)) for t in range(5))
    assert first.image_shape == (3, 32, 32)
    assert [len(t.x) for t in first] == [12] * 5
    assert torch.equal(first[4].x, again[4].x)
    assert not torch.equal(first[4].x, other[4].x)
    assert not torch.equal(first[0].x[:2], first[0].test_x[:2])


def test_unknown_streams_are_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown dataset 'split-cifar': did you mean 'split-cifar10+'\?"):
        open_stream("split-cifar")
    with pytest.raises(ConfigError, match="--image-size is for your own images"):
        open_stream("split-synthetic", image_size=16)
