"""A learner from a file takes classes that it was not made for: heads grow, and all that goes by their number."""

import numpy as np
import pytest
import torch

import samc
from samc.errors import ConfigError
from samc.learners import LEARNERS
from samc.memory import Budget, EpisodicMemory, full_selection, parse_codec
from samc.streams import Task
from test_learner_file import METHODS, SHAPE, learn, make, same_state
from toys import coloured_squares, random_batch


def more_tasks(first_task, first_class, count=2):
    """Tasks of two classes each, numbered after those that a learner knows."""
    for number in range(count):
        classes = (first_class + 2 * number, first_class + 2 * number + 1)
        x, y = random_batch(10, SHAPE, classes, seed=number)
        yield Task.from_arrays(x, y, id=first_task + number, classes=classes)


def go_on(learner, tasks):
    for task in tasks:
        learner.begin_task(task)
        for x, y in task.batches(5):
            learner.observe(x, y, task.id)
        learner.end_task(task)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "given"), METHODS)
@pytest.mark.parametrize("first_class", [6, 300], ids=["labels of one byte", "labels of two"])
def test_every_method_goes_on_with_new_classes(name, given, first_class, tmp_path):
    """Saved in between or not, it is the same learner; old tasks are still answered among their own classes."""
    stream = coloured_squares(tasks=3, per_class=5)
    before = make(name, given)
    learn(before, stream)
    path = before.save(tmp_path / "learner")
    once = samc.load(path)
    tasks = list(more_tasks(3, first_class))
    go_on(once, tasks)
    again = samc.load(path)
    go_on(again, tasks[:1])
    again = samc.load(again.save(tmp_path / "between"))
    go_on(again, tasks[1:])
    assert same_state(again, once)
    assert again.memory_report() == once.memory_report()
    assert once.num_classes == once.model.heads.num_classes == first_class + 4
    assert once.model.heads.task_classes == {
        0: (0, 1), 1: (2, 3), 2: (4, 5), 3: tasks[0].classes, 4: tasks[1].classes,
    }  # fmt: skip
    for task in (*stream, *tasks):
        assert set(once.predict(task.test_x, task.id).tolist()) <= set(task.classes)
    if hasattr(once, "memory"):
        for task in (*stream, *tasks):
            assert set(once.memory.recall(task.id)[2].tolist()) <= set(task.classes)
        assert once.memory.label_type.itemsize == (2 if first_class > 256 else 1)
    another = samc.load(path)  # a state of more classes is taken up where labels are of one size
    if first_class < 256:
        another.load_state_dict(once.state_dict())
        assert same_state(another, once)


def test_a_learner_that_was_not_loaded_keeps_its_number_of_classes():
    with pytest.raises(ConfigError, match=r"task 3 has classes \(6, 7\), the network only 0 to 5; make it with num_cl"):
        make("er", {}).begin_task(next(more_tasks(3, 6)))


def test_a_common_budget_is_shared_out_among_old_and_new_tasks(tmp_path):
    before = make("er", {"memory_bytes": str(6 * 433)})
    learn(before, coloured_squares(tasks=3, per_class=5))
    assert before.memory.images_per_task == {0: 2, 1: 2, 2: 2}
    learner = samc.load(before.save(tmp_path / "learner"))
    go_on(learner, more_tasks(3, 6, count=3))
    assert learner.memory.images_per_task == dict.fromkeys(range(6), 1)
    with pytest.raises(ConfigError, match=r"a budget of 2,598 bytes for all tasks, 371 bytes for each of 7, cannot"):
        learner.begin_task(next(more_tasks(6, 12)))


def filled(num_classes, budget, **more):
    memory = EpisodicMemory(parse_codec("raw", (1, 2, 2)), num_classes, budget, **more)
    x = np.arange(40, dtype=np.uint8).reshape(10, 1, 2, 2)
    memory.add(0, x, full_selection(10, 2, 2), np.arange(10))
    return memory, x


@pytest.mark.parametrize("accounting", ["bytes", "values"])
def test_larger_labels_make_the_memory_that_it_would_have_been(accounting):
    """With room for them: as if the number of classes had been known from the beginning."""
    budgets = [Budget(4 * (4 + size if accounting == "bytes" else 4)) for size in (1, 2)]
    grown, _ = filled(200, budgets[0], accounting=accounting)
    known, _ = filled(300, budgets[1], accounting=accounting)
    grown.fit_classes(300, budgets[1])
    assert grown.state_dict() == known.state_dict()
    assert grown.terms() == known.terms()
    assert [held.cost for held in grown.by_task.values()] == [held.cost for held in known.by_task.values()]
    assert grown.nbytes == known.nbytes == 4 * 6


def test_without_room_for_them_the_oldest_images_go():
    memory, x = filled(200, Budget(20))
    assert memory.images_per_task == {0: 4}
    memory.fit_classes(300, Budget(20))
    images, _, labels = memory.recall(0)
    assert labels.tolist() == [7, 8, 9]
    assert np.array_equal(images, x[7:])
    assert memory.by_task[0].cost == memory.nbytes == 18


def test_a_budget_that_has_no_room_for_an_image_then_is_refused_and_nothing_changes(tmp_path):
    memory, _ = filled(200, Budget(5))
    before = memory.state_dict(), memory.terms(), memory.num_classes
    with pytest.raises(ConfigError, match="cannot hold one image; raise it: one takes 6 bytes as raw"):
        memory.fit_classes(300, Budget(5))
    assert (memory.state_dict(), memory.terms(), memory.num_classes) == before
    learner = make("er", {"memory_bytes": "433/task"})
    learn(learner, coloured_squares(tasks=1, per_class=5))
    loaded, untouched = (samc.load(learner.save(tmp_path / "learner", replace=True)) for _ in range(2))
    with pytest.raises(ConfigError, match="cannot hold one image"):
        loaded.begin_task(next(more_tasks(1, 300)))
    assert same_state(loaded, untouched)
    assert loaded.num_classes == untouched.num_classes == 6


def test_eec_refuses_classes_that_its_budget_has_no_room_for(tmp_path):
    learner = make("eec", {"encoder_steps": 1})
    loaded = samc.load(learner.save(tmp_path / "learner"))
    many = list(range(6, 106))
    with pytest.raises(ConfigError, match="a task of 100 classes needs"):
        loaded.declare(3, many)
    assert same_state(loaded, learner)


@pytest.mark.parametrize("name", LEARNERS)
def test_classes_beyond_all_bounds_are_refused(name, tmp_path):
    learner = samc.load(make(name, {}, backbone="mlp").save(tmp_path / "learner"))
    with pytest.raises(ConfigError, match=r"task 3 has class 1000000; number them 0, 1, 2, ... below 1,000,000"):
        learner.declare(3, (6, 10**6))
    assert learner.num_classes == learner.model.heads.num_classes == 6


def test_growth_draws_as_heads_do_that_were_never_limited(tmp_path):
    """The same weights as in a learner whose number of classes was left out, from the same seed and number."""
    fixed = samc.load(samc.Finetune(6, SHAPE, seed=3).save(tmp_path / "learner"))
    fixed.declare(0, (0, 7))
    free = samc.Finetune(None, SHAPE, seed=3)
    free.model.heads.fit(6)
    free.declare(0, (0, 7))
    assert torch.equal(fixed.model.heads.linear.weight[6:], free.model.heads.linear.weight[6:])
