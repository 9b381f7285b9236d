"""Codecs bring kept pixels back exactly, and the buffer holds its budget at every moment."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from samc.errors import ConfigError, DataError
from samc.memory import Budget, EpisodicMemory, Selection, budget_of, parse_budget, parse_codec


def memory_of(codec, shape, classes, images, accounting="bytes", **more):
    budget = budget_of(shape, classes, images, accounting)
    return EpisodicMemory(parse_codec(codec, shape), classes, budget, accounting, **more)


def images_and_masks(count, shape, share, seed):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, *shape), dtype=np.uint8)
    return images, kept(rng.random((count, *shape[1:])) < share)


def kept(masks):
    """A selection of just these pixels; only codecs that keep masks themselves can take it."""
    return Selection(np.zeros((len(masks), 1, 1), np.uint8), np.zeros(len(masks), np.uint16), masks)


@pytest.mark.parametrize("accounting", ["bytes", "values"])
@given(
    budget=st.integers(1, 5),
    shares=st.lists(st.sampled_from([0.0, 0.05, 0.2, 0.6]), min_size=1, max_size=40),
    name=st.sampled_from(["coo", "raw"]),
)
@settings(max_examples=60, deadline=None)
def test_never_above_budget_and_first_in_first_out(accounting, budget, shares, name):
    memory = memory_of(name, (3, 6, 6), 10, budget, accounting)
    history = []
    for number, share in enumerate(shares):
        image = np.full((1, 3, 6, 6), number, np.uint8)
        memory.add(0, image, cut(memory, share, number), np.array([number % 10]))
        history.append(number)
        counted = memory.nbytes if accounting == "bytes" else memory.nbytes_by_part["colours"]
        assert counted <= memory.budget_bytes
        assert memory.by_task[0].cost == counted
        # what is held is an unbroken end of what came, in order
        images, _, labels = memory.recall(0)
        held = images[:, 0, 0, 0].tolist()
        assert held == history[-len(held) :]
        assert labels.tolist() == [n % 10 for n in held]
        # and one more would not have fitted
        if len(held) < len(history):
            previous = history[-len(held) - 1]
            old = np.full((1, 3, 6, 6), previous, np.uint8)
            image = memory.stored_image(memory.codec.encode(old, cut(memory, shares[previous], previous))[0], b"\0")
            assert counted + image.cost > memory.budget_bytes


def cut(memory, share, seed):
    """A random mask with its first pixel in it, cut to what fits."""
    masks = images_and_masks(1, (3, 6, 6), share, seed)[1].masks
    masks[0, 0, 0] = True
    masks[0].flat[memory.max_pixels :] = False
    return kept(masks)


def test_budgets_by_hand():
    # ten raw images of 3·32·32 bytes, and a byte of label each where everything counts
    assert memory_of("raw", (3, 32, 32), 100, 10, "bytes").budget_bytes == 10 * (3072 + 1)
    assert memory_of("raw", (3, 32, 32), 100, 10, "values").budget_bytes == 10 * 3072
    assert memory_of("raw", (3, 32, 32), 1000, 10, "bytes").budget_bytes == 10 * (3072 + 2)


def test_an_unknown_number_of_classes_may_grow():
    shape = (1, 2, 2)
    # four bytes of image and two of label
    assert budget_of(shape, None, 10, "bytes") == Budget(60) == budget_of(shape, 257, 10, "bytes")
    assert budget_of(shape, None, 10, "values") == Budget(40)
    memory = memory_of("raw", shape, None, 3)
    images, masks = images_and_masks(3, shape, 1, 0)
    memory.add(0, images, masks, np.array([0, 256, 65_535]))
    assert memory.recall(0)[2].tolist() == [0, 256, 65_535]
    assert memory.nbytes_by_part == {"colours": 12, "labels": 6}
    assert memory.images_per_task == {0: 3}
    with pytest.raises(DataError, match="labels go from 0 to 65535; got 65536 to 65536"):
        memory.add(0, images[:1], kept(masks.masks[:1]), np.array([65_536]))
    other = memory_of("raw", shape, None, 3)
    other.load_state_dict(memory.state_dict())
    assert other.state_dict() == memory.state_dict()


@pytest.mark.parametrize("accounting", ["bytes", "values"])
def test_ten_raw_images_fit_exactly(accounting):
    memory = memory_of("raw", (3, 8, 8), 5, 10, accounting)
    images, masks = images_and_masks(25, (3, 8, 8), 1, 0)
    memory.add(3, images, masks, np.arange(25) % 5)
    assert memory.images_per_task == {3: 10}
    assert np.array_equal(memory.recall(3)[0], images[-10:])
    assert memory.nbytes == 10 * (3 * 64 + 1)
    assert memory.nbytes_by_part == {"colours": 10 * 3 * 64, "labels": 10}


def test_each_task_has_a_budget_of_its_own():
    memory = memory_of("raw", (1, 4, 4), 5, 2)
    images, masks = images_and_masks(6, (1, 4, 4), 1, 0)
    memory.add(0, images[:3], kept(masks.masks[:3]), np.array([0, 1, 2]))
    memory.add(1, images[3:], kept(masks.masks[3:]), np.array([3, 4, 3]))
    assert memory.images_per_task == {0: 2, 1: 2}
    assert memory.recall(0)[2].tolist() == [1, 2]


def test_state_comes_back_and_goes_on_alike():
    memory, fresh = (memory_of("coo", (3, 6, 6), 10, 2) for _ in range(2))
    for seed in range(8):
        memory.add(seed % 2, *images_and_masks(3, (3, 6, 6), 0.4, seed), np.arange(3))
    fresh.load_state_dict(memory.state_dict())
    for buffer in (memory, fresh):
        buffer.add(1, *images_and_masks(3, (3, 6, 6), 0.4, 99), np.arange(3))
    assert fresh.state_dict() == memory.state_dict()
    assert fresh.by_task[1].cost == memory.by_task[1].cost


def test_a_state_from_a_larger_budget_keeps_its_newest():
    large, small = (memory_of("raw", (1, 4, 4), 10, budget) for budget in (5, 2))
    images, masks = images_and_masks(5, (1, 4, 4), 1, 0)
    large.add(0, images, masks, np.arange(5))
    small.load_state_dict(large.state_dict())
    assert small.recall(0)[2].tolist() == [3, 4]
    assert small.nbytes <= small.budget_bytes


def test_what_cannot_work_is_refused_with_the_remedy():
    with pytest.raises(ConfigError, match="buffer-size is at least 1, got 0; the paper uses 10"):
        memory_of("raw", (3, 8, 8), 10, 0)
    with pytest.raises(ConfigError, match="a budget of 2 bytes per task cannot hold one image; raise it"):
        memory_of("coo", (1, 1, 1), 10, 1)
    memory = memory_of("coo", (3, 8, 8), 10, 1)
    images, masks = images_and_masks(1, (3, 8, 8), 1, 0)
    with pytest.raises(DataError, match="one image takes 323 bytes, its task has 193; raise the budget"):
        memory.add(0, images, masks, np.array([1]))
    with pytest.raises(DataError, match="labels go from 0 to 9; got 10 to 10"):
        memory.add(0, images, kept(masks.masks & False), np.array([10]))
    assert memory.nbytes == 0


@pytest.mark.slow
def test_the_reservoir_keeps_each_item_with_equal_probability():
    """Two thousand streams of twenty items, five of which are kept: chi-square of how often each was."""
    streams, length, room = 2_000, 20, 5
    random = torch.Generator().manual_seed(0)
    counts = np.zeros(length)
    for _ in range(streams):
        memory = memory_of("raw", (1, 1, 1), length, room, reservoir=random)
        for label in range(length):
            memory.put(0, memory.stored_image(b"x", bytes([label])))
        kept = memory.recall(0)[2]
        assert len(kept) == room
        counts[kept] += 1
    share = room / length
    statistic = ((counts - streams * share) ** 2).sum() / (streams * share * (1 - share)) * (length - 1) / length
    assert statistic < 43.8  # the 99.9 % point of chi-square with 19 degrees of freedom
    assert counts.sum() == streams * room


def test_a_reservoir_goes_on_where_its_state_left_off():
    def offer(memory, labels):
        for label in labels:
            memory.put(0, memory.stored_image(b"x", bytes([label])))

    random = torch.Generator().manual_seed(1)
    whole, half = (memory_of("raw", (1, 1, 1), 100, 4, reservoir=random) for _ in range(2))
    offer(whole, range(60))
    random.manual_seed(1)
    offer(half, range(30))
    resumed = memory_of("raw", (1, 1, 1), 100, 4, reservoir=random)
    resumed.load_state_dict(half.state_dict())
    offer(resumed, range(30, 60))
    assert resumed.state_dict() == whole.state_dict()


@pytest.mark.parametrize(
    ("text", "total", "per_task"),
    [("30KB/task", 30_000, True), ("600kb", 600_000, False), ("1.5MiB", 1_572_864, False), ("512 /task", 512, True)],
)
def test_budgets_in_words(text, total, per_task):
    assert parse_budget(text) == Budget(total, per_task)


def test_a_common_budget_shrinks_earlier_tasks_from_their_oldest():
    memory = EpisodicMemory(parse_codec("raw", (1, 4, 4)), 10, Budget(6 * 17, per_task=False))
    images, _ = images_and_masks(6, (1, 4, 4), 1, 0)
    memory.add(0, images, kept(np.ones((6, 4, 4), bool)), np.arange(6))
    assert memory.images_per_task == {0: 6}
    memory.add(1, images[:1], kept(np.ones((1, 4, 4), bool)), np.array([9]))
    assert memory.images_per_task == {0: 3, 1: 1}
    assert memory.recall(0)[2].tolist() == [3, 4, 5]


@pytest.mark.parametrize("text", ["", "KB", "0", "-3KB", "3 apples", "30KB/tasks", "9" * 400, f"1.{'0' * 400}KB"])
def test_budgets_that_mean_nothing(text):
    with pytest.raises(ConfigError, match="memory-bytes is like 30KB/task, or 600KB for all tasks together; got"):
        parse_budget(text)


def test_short_reprs():
    memory = memory_of("raw", (1, 4, 4), 10, 3)
    assert repr(memory) == "EpisodicMemory(0 tasks, 0 images, 0 of 51 bytes, raw)"
    images, masks = images_and_masks(4, (1, 4, 4), 1, 0)
    memory.add(0, images, masks, np.arange(4))
    memory.add(1, images[:1], kept(masks.masks[:1]), np.arange(1))
    assert repr(memory) == "EpisodicMemory(2 tasks, 4 images, 68 of 102 bytes, raw)"
    assert repr(memory.by_task) == (
        "{0: TaskMemory(3 images of 4 offered, 51 bytes), 1: TaskMemory(1 image of 1 offered, 17 bytes)}"
    )
    assert repr(memory.by_task[1].images[0]) == "StoredImage(17 bytes)"
    assert repr(memory.codec) == "parse_codec('raw', (1, 4, 4))"
    assert repr(memory.budget) == "Budget(51 bytes per task)"
    assert repr(Budget(600_000, per_task=False)) == "Budget(600,000 bytes for all tasks)"
    assert repr(masks) == "Selection(4 images, 100.0% of their pixels)"
    shared = EpisodicMemory(parse_codec("raw", (1, 4, 4)), 10, Budget(2000, per_task=False), "values")
    shared.add(0, images[:1], kept(masks.masks[:1]), np.arange(1))
    shared.task(1)
    assert repr(shared) == "EpisodicMemory(2 tasks, 1 image, 16 of 2,000 bytes of colours, raw)"
