"""The parts that every method can use, by hand: an average that answers, old heads held to it, images flipped and
shifted, how much is replayed and what it counts, the current task's own memory; alone and all at once."""

import copy
from collections import deque
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from networks import make
from samc.engine import Batch, Engine, Held
from samc.engine.deferred import DeferredQueue
from samc.errors import ConfigError
from samc.learners import LEARNERS, live
from samc.learners.augmentation import augmented
from samc.learners.live import LiveMemory
from samc.memory.stored import StoredImage
from samc.models import Classifier, Heads, probe
from samc.models.classifier import Wanted
from toys import PLAIN, Replaying, coloured_squares, random_batch

SHAPE = (3, 8, 8)
TASKS = ((0, 1), (2, 3), (4, 5))
EVERY = {
    "average": 0.7,
    "augment": "crop+flip",
    "distil": 0.5,
    "replay_size": 3,
    "replay_weight": 0.7,
    "replay_current": True,
    "steps_per_batch": 2,
}
SMALL = {"buffer_size": 2, "meta_batches": 2, "inner_steps": 2, "autoencoder_steps": 2}
LEARNT = "telea+autoencoder"
VARIANTS = [
    ("samc", {}),
    ("samc", {"keeps": "sample"}),
    ("samc", {"completion": LEARNT, "codec": "coo", "keeps": "sample"}),
    ("samc", {"replay": "gem"}),
    ("er", {}),
    ("er", {"replay_one_by_one": True}),
    ("mer", {}),
    ("mer", {"replay_one_by_one": True, "meta_statistics": True, "inner_steps": 1}),
    ("gem", {}),
    ("agem", {}),
    ("icarl", {}),
    ("finetune", {}),
]


def learner(name, network="biases", num_classes=6, **given):
    """With heads of its own network, small as it is; classes are known where their number is."""
    known = {"task_classes": TASKS} if num_classes else {}
    return LEARNERS[name](num_classes, SHAPE, model=make(network), **{"lr": 0.05, "seed": 1, **known, **given})


def every_part(name, given):
    """All the parts that a method has and that do something in it."""
    kind = LEARNERS[name].Settings
    idle = kind(**given).idle()
    wanted = {setting: value for setting, value in (EVERY | SMALL).items() if setting in kind.names()}
    return {setting: value for setting, value in wanted.items() if setting not in idle} | given


def numbers(model):
    """A copy of all that a network has learnt and seen, by name."""
    return {name: value.clone() for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}


def parameters(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def batches(count, size=4):
    """So many batches of each task, one after the other."""
    for task, classes in enumerate(TASKS):
        for step in range(count):
            yield *random_batch(size, SHAPE, classes, seed=10 * task + step), task


# -- an average that answers


def by_hand(average, now, share):
    """The average after a step. Classes that are new begin where the network's do: `average` has them already."""
    return {
        name: value + share * (now[name] - value) if value.is_floating_point() else now[name]
        for name, value in average.items()
    }


def grown(average, now):
    """Rows of new classes as they were drawn."""
    return {
        name: torch.cat([value, now[name][len(value) :]]) if now[name].shape != value.shape else value
        for name, value in average.items()
    }


@pytest.mark.parametrize("num_classes", [6, None], ids=["fixed", "growing"])
@pytest.mark.parametrize("name", ["finetune", "gem", "er", "mer", "icarl", "lwf", "ewc", "samc"])
def test_the_average_equals_the_sequence_by_hand(name, num_classes):
    """Once per batch that is observed, however many steps a method makes of it."""
    more = {"meta_batches": 2, "inner_steps": 2, "within_meta_lr": 0.5} if name == "mer" else {}
    subject = learner(name, num_classes=num_classes, average=0.7, **more)
    expected = numbers(subject.model)
    for number, (x, y, task) in enumerate(batches(3), start=1):
        subject.as_batch(x, y, task)
        expected = grown(expected, numbers(subject.model))
        subject.observe(x, y, task)
        expected = by_hand(expected, numbers(subject.model), max(1 - 0.7, 1 / number))
        found = numbers(subject.average.model)
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            torch.testing.assert_close(found[key], value, rtol=1e-5, atol=1e-6)
    assert number == 9
    counted = [value for key, value in found.items() if key.endswith("num_batches_tracked")]
    assert counted
    assert all(value > 0 for value in counted)
    running = [key for key in found if "running" in key]
    assert running
    assert all(not torch.equal(found[key], subject.model.state_dict()[key]) for key in running)


def test_after_the_first_step_the_average_is_the_network():
    subject = learner("finetune", average=0.99)
    subject.observe(*random_batch(4, SHAPE), 0)
    found = numbers(subject.average.model)
    assert all(torch.equal(found[key], value) for key, value in numbers(subject.model).items())


def test_an_average_that_was_recorded_is_the_same_average():
    """As on a GPU, where the average follows without Python as soon as its share stays the same."""
    plain, recorded = (learner("finetune", num_classes=None, average=0.7) for _ in range(2))
    tapes = []
    for x, y, task in batches(8):
        plain.observe(x, y, task)
        recorded.as_batch(x, y, task)
        if not tapes or recorded.engine.graphs is not tapes[-1]:  # heads have grown: the engine began anew
            recorded.engine.graphs = Replaying()
            tapes.append(recorded.engine.graphs)
        recorded.observe(x, y, task)
    assert torch.equal(parameters(plain.model), parameters(recorded.model))
    expected, found = numbers(plain.average.model), numbers(recorded.average.model)
    assert all(torch.equal(value, found[key]) for key, value in expected.items())
    following = [sum("lerp" in kernel._schema.name for tape in each.tapes for kernel, *_ in tape.kernels)
                 for each in tapes]  # fmt: skip
    assert following == [1, 1, 1]


class Tied(nn.Module):
    """One convolution under two names, as tied weights are: a state has it twice."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 3, 3, 1, 1)
        self.second = self.first

    def forward(self, x):
        return self.second(self.first(x).relu())


def test_a_layer_with_two_names_is_averaged_once():
    torch.manual_seed(0)
    subject = LEARNERS["finetune"](6, SHAPE, model=Tied(), task_classes=TASKS, lr=0.05, average=0.7)
    expected = numbers(subject.model)
    for number, (x, y, task) in enumerate(batches(2), start=1):
        subject.observe(x, y, task)
        expected = by_hand(expected, numbers(subject.model), max(1 - 0.7, 1 / number))
    torch.testing.assert_close(numbers(subject.average.model), expected, rtol=1e-5, atol=1e-6)
    own = sum(tensor.nbytes for tensor in (*subject.model.parameters(), *subject.model.buffers()))
    assert subject.memory_report()["bytes_by_part"] == {"average": own}


@pytest.mark.parametrize("name", ["finetune", "gem", "icarl"])
def test_predictions_come_from_the_average(name):
    subject = learner(name, average=0.9)
    for x, y, task in batches(3):
        subject.observe(x, y, task)
    x = random_batch(50, SHAPE, seed=99)[0]
    answering = copy.deepcopy(subject.average.model).eval()
    with torch.no_grad():
        expected = answering(x.float() / 255, 1).argmax(1) + 2
        assert torch.equal(subject.predict(x, 1), expected)
        for parameter in subject.model.parameters():
            parameter.neg_()
    assert torch.equal(subject.predict(x, 1), expected)
    assert subject.model.training


def test_icarl_chooses_and_compares_by_the_features_of_the_average():
    subject, x = learner("icarl", average=0.9), random_batch(5, SHAPE)[0]
    subject.observe(*random_batch(4, SHAPE), 0)
    subject.observe(*random_batch(4, SHAPE, seed=1), 0)
    answering = copy.deepcopy(subject.average.model).eval()
    with torch.no_grad():
        expected = F.normalize(answering.features(x.float() / 255).mean((2, 3)))
    torch.testing.assert_close(subject.embedded(x.float() / 255), expected)


# -- old heads held to it


def classifier(seed, num_classes=6):
    network = make("biases", seed)
    found = probe(network, SHAPE)
    model = Classifier(network, Heads(found.width, num_classes, seed), found)
    for task, classes in enumerate(TASKS):
        model.heads.assign(task, classes)
    return model


def test_the_gradient_with_held_heads_and_weights_by_finite_differences():
    student, teacher = classifier(0).double(), classifier(1).double()
    counts = torch.tensor([0.2, 0.2, 0.0, 0.0, 0.3, 0.1]).double()
    engine, held = Engine(student), Held(Engine(teacher), counts, torch.tensor(1e-3).double())
    (x, y), (old, labels) = random_batch(5, SHAPE, TASKS[1]), random_batch(3, SHAPE, (0, 4), seed=1)
    given = [Batch(x.double() / 255, y, 1), Batch(old.double() / 255, labels, labels // 2)]
    weights = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 2.0, 0.0]).double()
    g, loss = engine.gradient(given, weights, held)
    assert g.dtype == torch.float64
    assert float(loss) > float(engine.gradient(given, weights)[1])
    random = torch.Generator().manual_seed(1)
    for _ in range(5):
        direction = [torch.randn(p.shape, generator=random, dtype=torch.float64) for p in student.parameters()]
        ends = []
        for sign in (1, -2):
            for parameter, d in zip(student.parameters(), direction, strict=True):
                parameter.data += sign * 1e-7 * d
            ends.append(float(engine.gradient(given, weights, held)[1]))
        for parameter, d in zip(student.parameters(), direction, strict=True):
            parameter.data += 1e-7 * d
        slope = float(g @ torch.cat([d.flatten() for d in direction]))
        assert slope == pytest.approx((ends[0] - ends[1]) / 2e-7, rel=1e-4)


def all_logits(model, x):
    """Of every class, with the statistics of these images."""
    return model.train().heads.linear(model.features(x).mean((2, 3)))


def test_a_step_that_holds_old_heads_by_hand():
    subject = learner("finetune", average=0.8, distil=0.6, lr=0.5)
    for x, y, task in batches(2):
        subject.observe(x, y, task)
    x, y = random_batch(5, SHAPE, TASKS[2], seed=77)
    images, student = x.float() / 255, copy.deepcopy(subject.model)
    with torch.no_grad():
        wanted = all_logits(copy.deepcopy(subject.average.model), images)
    logits = all_logits(student, images)
    away = (logits - wanted)[:, :4].square().mean()  # of both old tasks' classes, each alike
    loss = F.cross_entropy(logits[:, 4:], y - 4) + 0.6 * away
    assert float(away.detach()) > 1e-4
    grads = torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, [*student.parameters()])])
    expected = parameters(subject.model) - 0.5 * grads
    stats = subject.observe(x, y, 2)
    assert float(stats.loss) == pytest.approx(float(loss.detach()), rel=1e-5)
    torch.testing.assert_close(parameters(subject.model), expected, rtol=1e-5, atol=1e-7)


@given(st.integers(1, 12), st.integers(1, 8), st.floats(-2, 3), st.floats(-3, 1), st.integers(0, 2**32))
def test_a_step_of_the_head_never_overshoots_what_it_is_held_to(images, width, size, lr, seed):
    random = torch.Generator().manual_seed(seed)
    features = (10**size * torch.randn(images, width, generator=random)).relu().double()
    head = nn.Linear(width, 3).double()
    held = Wanted(torch.randn(images, 3, generator=random).double(), torch.tensor([4.0, 4.0, 0.0]).double(),
                  torch.tensor(10**lr).double())  # fmt: skip
    before = held.distance(head(features), features)
    grads = torch.autograd.grad(before, [*head.parameters()])
    with torch.no_grad():
        for parameter, grad in zip(head.parameters(), grads, strict=True):
            parameter.sub_(held.lr * grad)
        assert held.distance(head(features), features) <= before * (1 + 1e-9)


def test_a_weight_that_no_step_overshoots_with_is_left_as_it_is():
    features, weights = torch.tensor([[1.0, 2.0], [0.0, 3.0]]), torch.tensor([0.3, 0.0])
    norm = (torch.tensor([[6.0, 7.0], [7.0, 10.0]])).norm()  # products of the features, and 1 for the bias
    for lr in (0.01, float(2 / (0.3 * norm)) * 0.999):
        assert torch.equal(Wanted(features, weights, torch.tensor(lr)).steady(features), weights)
    torch.testing.assert_close(Wanted(features, weights, torch.tensor(1.0)).steady(features)[0], 2 / norm)


def losses_of(**given):
    subject = learner("finetune", average=0.9, lr=0.3, **given)
    return [float(subject.observe(x, y, task).loss) for x, y, task in batches(12)]


def test_heads_that_are_held_hard_at_a_large_rate_learn_on():
    held = losses_of(distil=20.0)
    assert max(held) < 2 * max(losses_of())
    with mock.patch.object(Wanted, "steady", lambda self, pooled: self.weights):
        assert not max(losses_of(distil=20.0)) < 1e3 * max(held)


def test_replayed_images_hold_old_heads_too():
    subject = learner("er", average=0.8, distil=0.6, replay_size=3, replay_weight=0.5)
    for x, y, task in batches(2):
        subject.observe(x, y, task)
    x, y = random_batch(5, SHAPE, TASKS[2], seed=77)
    state, student = subject.random.get_state(), copy.deepcopy(subject.model)
    (drawn,) = subject.replay.draw(5)
    subject.random.set_state(state)
    images = torch.cat([x.float() / 255, drawn.x])
    with torch.no_grad():
        wanted = all_logits(copy.deepcopy(subject.average.model), images)
    logits = all_logits(student, images)
    loss = F.cross_entropy(logits[:5, 4:], y - 4) + 0.6 * (logits - wanted)[:, :4].square().mean()
    of_replay = [F.cross_entropy(row[2 * t : 2 * t + 2], label - 2 * t)
                 for row, label, t in zip(logits[5:], drawn.y, drawn.tasks.tolist(), strict=True)]  # fmt: skip
    loss = loss + 0.5 * torch.stack(of_replay).mean()
    assert float(subject.observe(x, y, 2).loss) == pytest.approx(float(loss.detach()), rel=1e-5)


def test_who_teaches_does_not_learn_from_it():
    subject = learner("finetune", average=0.8, distil=0.6)
    for x, y, task in batches(2):
        subject.observe(x, y, task)
    before, moving = numbers(subject.average.model), numbers(subject.model)
    batch = subject.as_batch(*random_batch(5, SHAPE, TASKS[2], seed=77), 2)
    held = subject.held()
    assert held.teacher is subject.average.engine
    subject.engine.gradient([batch], held=held)
    after, moved = numbers(subject.average.model), numbers(subject.model)
    floating = [name for name, value in before.items() if value.is_floating_point()]
    assert all(torch.equal(before[name], after[name]) for name in floating)
    assert any(not torch.equal(moving[name], moved[name]) for name in floating)


@pytest.mark.parametrize("declared", [True, False])
def test_nothing_is_held_during_the_first_task_and_then_what_was_begun(declared):
    subject = learner("finetune", num_classes=6 if declared else None, average=0.8, distil=0.6)
    held = []
    for x, y, task in batches(2):
        subject.observe(x, y, task)
        held.append(subject.held())
    assert held[:2] == [None, None]
    assert held[2].weights[:4].tolist() == pytest.approx([0.3, 0.3, 0.0, 0.0])
    assert held[4].weights.tolist() == pytest.approx([0.15, 0.15, 0.15, 0.15, 0.0, 0.0])
    subject.begin(0)  # a task that comes back is learnt, not held
    assert subject.held().weights.tolist() == pytest.approx([0.0, 0.0, 0.15, 0.15, 0.15, 0.15])


def test_the_batch_alone_holds_old_heads_where_memory_constrains():
    subject = learner("gem", average=0.8, distil=0.6)
    for x, y, task in batches(2):
        subject.observe(x, y, task)
    batch = subject.as_batch(*random_batch(5, SHAPE, TASKS[2], seed=77), 2)
    memories = [[memory] for memory in subject.past]
    g, rows, loss = subject.replay.gradients(subject.engine, batch, memories)
    rows = rows.clone()
    expected, value = subject.engine.gradient([batch], held=subject.held())
    plain = subject.engine.gradients(memories, batch)[0]
    torch.testing.assert_close(g, expected)
    torch.testing.assert_close(loss, value)
    torch.testing.assert_close(rows, plain[:-1], rtol=1e-4, atol=1e-6)
    assert not torch.allclose(g, plain[-1], rtol=1e-3, atol=1e-6)


# -- images flipped and shifted


def draws(seed=3):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("how", ["flip", "crop+flip"])
def test_the_same_generator_gives_the_same_images(how):
    x = random_batch(20, (3, 8, 16))[0].float() / 255
    first, again, other = augmented(x, how, draws()), augmented(x, how, draws()), augmented(x, how, draws(4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_flip_changes_left_and_right_in_about_half_of_the_images():
    x = random_batch(200, SHAPE)[0].float() / 255
    found = augmented(x, "flip", draws())
    mirrored = [bool(torch.equal(image, before.flip(2))) for image, before in zip(found, x, strict=True)]
    same = [bool(torch.equal(image, before)) for image, before in zip(found, x, strict=True)]
    assert all(one != other for one, other in zip(mirrored, same, strict=True))
    assert 70 < sum(mirrored) < 130


@pytest.mark.parametrize(("height", "width"), [(8, 8), (16, 24), (5, 3)])
def test_crops_and_flips_equal_a_plain_loop(height, width):
    x, random = random_batch(30, (2, height, width))[0].float() / 255, draws()
    below, beside = max(1, height // 8), max(1, width // 8)
    down = torch.randint(2 * below + 1, (30,), generator=random).tolist()
    right = torch.randint(2 * beside + 1, (30,), generator=random).tolist()
    turned = (torch.rand(30, generator=random) < 0.5).tolist()
    expected = torch.zeros_like(x)
    for n in range(30):
        for row in range(height):
            for column in range(width):
                i, j = row + down[n] - below, (width - 1 - column if turned[n] else column) + right[n] - beside
                if 0 <= i < height and 0 <= j < width:
                    expected[n, :, row, column] = x[n, :, i, j]
    assert torch.equal(augmented(x, "crop+flip", draws()), expected)
    assert {0, 2 * below} <= set(down)
    assert {0, 2 * beside} <= set(right)


def test_none_draws_nothing_and_gives_the_very_images():
    x, random = random_batch(4, SHAPE)[0].float() / 255, draws()
    before = random.get_state()
    assert augmented(x, "none", random) is x
    assert torch.equal(before, random.get_state())
    plain, drawing = learner("finetune"), learner("finetune", augment="flip")
    for subject in (plain, drawing):
        subject.observe(*random_batch(4, SHAPE), 0)
    assert torch.equal(plain.random.get_state(), draws(1).get_state())
    assert not torch.equal(drawing.random.get_state(), draws(1).get_state())


def test_what_is_kept_and_explained_is_the_image_as_it_came():
    subject = learner("samc", augment="crop+flip", codec="raw")
    x, y = random_batch(4, SHAPE)
    subject.observe(x, y, 0)
    assert np.array_equal(subject.memory.recall(0)[0], x.numpy())


# -- how much is replayed, and what it counts


@pytest.mark.parametrize("weight", [0.0, 0.7])
@pytest.mark.parametrize("size", [0, 3, 100])
@pytest.mark.parametrize("name", ["er", "samc"])
def test_the_loss_of_a_batch_and_its_replay_by_hand(name, size, weight):
    subject = learner(name, **PLAIN | {"replay_size": size, "replay_weight": weight})
    for x, y, task in batches(2):
        subject.observe(x, y, task)
    x, y = random_batch(5, SHAPE, TASKS[2], seed=77)
    state, student = subject.random.get_state(), copy.deepcopy(subject.model)
    (drawn,) = subject.replay.draw(5)
    subject.random.set_state(state)
    count = min(size or 5, sum(len(memory.y) for memory in subject.past))
    assert len(drawn.y) == count
    assert set(drawn.tasks.tolist()) <= {0, 1}
    logits = all_logits(student, torch.cat([x.float() / 255, drawn.x]))
    now = F.cross_entropy(logits[:5, 4:], y - 4)
    past = [F.cross_entropy(row[2 * t : 2 * t + 2], label - 2 * t)
            for row, label, t in zip(logits[5:], drawn.y, drawn.tasks.tolist(), strict=True)]  # fmt: skip
    replayed = torch.stack(past).mean()
    loss = (5 * now + count * replayed) / (5 + count) if not weight else now + weight * replayed
    grads = torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, [*student.parameters()])])
    expected = parameters(subject.model) - 0.05 * grads
    assert float(subject.observe(x, y, 2).loss) == pytest.approx(float(loss.detach()), rel=1e-5)
    torch.testing.assert_close(parameters(subject.model), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["samc", "er", "gem", "agem"])
def test_a_batch_of_several_steps_is_learnt_so_often_and_kept_once(name):
    """While nothing is remembered of other tasks, three steps are the batch given three times."""
    plain = {"average": 0.0, "distil": 0.0, "augment": "none", "buffer_size": 9}
    plain |= {"replay_current": False} if name in ("samc", "er") else {}
    once, thrice = (learner(name, **plain, **given) for given in ({}, {"steps_per_batch": 3}))
    x, y = random_batch(4, SHAPE, (0, 1), seed=0)
    for _ in range(3):
        once.observe(x, y, 0)
    thrice.observe(x, y, 0)
    assert torch.equal(parameters(thrice.model), parameters(once.model))
    assert thrice.memory.images_per_task == {0: 4}


def test_each_step_of_a_batch_draws_from_memory_anew_and_moves_the_average():
    subject = learner("er", buffer_size=9, steps_per_batch=3, replay_size=2, average=0.7)
    for x, y, task in list(batches(2))[:2]:
        subject.observe(x, y, task)
    subject.replay.located_draw, drawn = recording(subject.replay.located_draw)
    subject.average.follow, followed = recording(subject.average.follow)
    subject.observe(*random_batch(4, SHAPE, (2, 3), seed=5), 1)
    assert len(followed) == 3
    assert len({tuple(rows) for rows, _ in drawn}) == 3


def recording(function):
    """The same function, and the list of what it has returned."""
    returned = []

    def called(*arguments):
        returned.append(function(*arguments))
        return returned[-1]

    return called, returned


def test_icarls_replay_weight_adds_the_cross_entropy_of_its_exemplars():
    plain, weighted = (learner("icarl", **given) for given in ({}, {"replay_weight": 0.7}))
    stream = coloured_squares(per_class=8, side=8)
    for subject in (plain, weighted):
        subject.observe(stream[0].x, stream[0].y, 0)
        subject.end_task(stream[0])
    x, y = random_batch(5, SHAPE, TASKS[1], seed=77)
    for subject in (plain, weighted):
        subject.as_batch(x, y, 1)
    state, student = weighted.random.get_state(), copy.deepcopy(weighted.model)
    (drawn,) = weighted.replay.draw(5)
    weighted.random.set_state(state)
    assert set(drawn.tasks.tolist()) == {0}
    with torch.no_grad():
        logits = all_logits(student, torch.cat([x.float() / 255, drawn.x]))
        more = F.cross_entropy(logits[5:, :2], drawn.y)
    losses = [float(subject.observe(x, y, 1).loss) for subject in (plain, weighted)]
    assert losses[1] - losses[0] == pytest.approx(0.7 * float(more), rel=1e-4)


def test_a_replay_size_is_that_of_each_memory_where_each_constrains():
    subject = learner("gem", replay_size=3)
    for x, y, task in batches(2):
        subject.observe(x, y, task)
    first, second = subject.replay.memories()
    assert (len(first.y), len(second.y)) == (3, 3)
    assert (first.tasks.tolist(), second.tasks.tolist()) == ([0] * 3, [1] * 3)
    whole = learner("gem")
    for x, y, task in batches(2):
        whole.observe(x, y, task)
    assert [len(memory.y) for memory in whole.replay.memories()] == [8, 8]


# -- the current task's own memory


def shades(first, count, labels):
    """Each image in a grey of its own, by which it is known again."""
    x = torch.arange(first, first + count, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, *SHAPE).contiguous()
    return x, torch.tensor(labels)[torch.arange(count) % len(labels)]


def shades_of(batch):
    return (batch.x[:, 0, 0, 0] * 255).round().int().tolist()


@pytest.mark.parametrize("keeps", ["newest", "sample"])
@pytest.mark.parametrize("name", ["er", "mer", "samc"])
def test_no_image_is_replayed_before_it_was_observed_nor_after_it_was_dropped(name, keeps, monkeypatch):
    subject = learner(name, **PLAIN | {"keeps": keeps, "replay_current": True, "codec": "raw", "buffer_size": 5})
    drawn, draw = [], subject.replay.draw

    def note(beside):
        found = draw(beside)
        held = {stored.blob[0] for memory in subject.memory.by_task.values() for stored in memory.images}
        for batch in found:
            assert set(shades_of(batch)) <= held & seen
            assert len(set(shades_of(batch))) == len(batch.y) == min(beside, len(held))
            assert [shade // 80 for shade in shades_of(batch)] == batch.tasks.tolist()
            drawn.extend(batch.tasks.tolist() if step > 3 else ())
        assert found or not held
        return found

    monkeypatch.setattr(subject.replay, "draw", note)
    seen = set()
    for task in range(2):
        for step in range(20):
            x, y = shades(80 * task + 4 * step, 4, TASKS[task])
            subject.observe(x, y, task)
            seen |= set(x[:, 0, 0, 0].tolist())
    assert subject.memory.images_per_task == {0: 5, 1: 5}
    assert 20 < drawn.count(1) < drawn.count(0)  # the first task was all there was for a while, then half of it


@pytest.mark.parametrize("name", ["er", "samc"])
def test_the_current_memory_is_left_alone_unless_asked_for(name):
    subject = learner(name, replay_current=False)
    for step in range(3):
        subject.observe(*random_batch(4, SHAPE, seed=step), 0)
    assert subject.replay.draw(4) == []


ROUNDS = st.lists(
    st.tuples(st.lists(st.integers(0, 3), max_size=9), st.lists(st.integers(0, 99), max_size=9)), max_size=8
)


@given(ROUNDS)
@settings(max_examples=60, deadline=None)
def test_a_live_memory_is_the_memory_decoded_anew(rounds):
    """Many images have the same bytes; what is dropped makes room for what comes."""
    decoded = []

    def decode(images):
        values = torch.tensor([image.blob[0] for image in images])
        return values.float().view(-1, 1, 1, 1).expand(-1, 1, 2, 2), values + 10

    def counting(images):
        decoded.extend(images)
        return decode(images)

    held, offered, most = deque(), 0, 0
    with mock.patch.object(live, "FIRST_ROOM", 2):
        subject = LiveMemory(counting)
        for number, (new, dropped) in enumerate(rounds):
            held.extend(StoredImage(bytes([value]), b"", b"", 1) for value in new)
            offered += len(new)
            for place in dropped[: len(held)]:
                del held[place % len(held)]
            subject.look(held, number)
            most = max(most, len(held))
            assert len(subject) == len(held)
            if held:
                batch, (x, y) = subject.pick(torch.arange(len(held))), decode(list(held))
                assert torch.equal(batch.x, x)
                assert torch.equal(batch.y, y)
                assert batch.task == number
                some = torch.tensor([len(held) - 1, 0])
                assert torch.equal(subject.pick(some).y, y[some])
            assert len(subject.rows) == len(held)  # others have let go of their rows
            assert len(subject.y) <= max(2, 2 * most)
    assert len(decoded) <= offered  # none of them twice


def test_a_task_that_goes_on_after_its_end_is_completed_by_what_was_learnt_there():
    (task, *_) = coloured_squares(per_class=10, side=8)
    given = {"completion": LEARNT, "codec": "coo", "replay_current": True, "autoencoder_steps": 5}
    subject = learner("samc", **given)
    for x, y in task.batches(5):
        subject.observe(x, y, 0)
    before = subject.current_memory()
    before = before.pick(torch.arange(len(before))).x
    subject.end_task(task)
    subject.begin(0)
    now = subject.current_memory()
    now = now.pick(torch.arange(len(now))).x
    assert now.shape == before.shape
    assert not torch.equal(now, before)
    assert torch.equal(now, subject.dense_memory(0).x)


# -- everything at once


def learn(subject, stream, first=0, stop=99):
    """Some of the batches of a stream, by their number; tasks end where they do."""
    number = 0
    for task in stream:
        parts = list(task.batches(4))
        for place, (x, y) in enumerate(parts):
            if first <= number < stop:
                subject.observe(x, y, task.id)
                if place == len(parts) - 1:
                    subject.end_task(task)
                if hasattr(subject, "memory"):
                    budget = subject.memory.budget_bytes
                    assert all(held.cost <= budget for held in subject.memory.by_task.values())
            number += 1


@pytest.mark.parametrize("stop", [2, 8])
@pytest.mark.parametrize(("name", "given"), VARIANTS)
def test_a_state_saved_with_every_part_on_goes_on_bit_for_bit(name, given, stop, tmp_path):
    stream, parts = coloured_squares(per_class=10, side=8), every_part(name, given)
    whole, half, resumed = (learner(name, num_classes=6, seed=seed, **parts) for seed in (4, 4, 5))
    learn(whole, stream)
    learn(half, stream, stop=stop)
    torch.save(half.state_dict(), tmp_path / "state.pt")
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    learn(resumed, stream, first=stop)
    for mine, theirs in ((whole.model, resumed.model), (whole.average.model, resumed.average.model)):
        expected, found = numbers(mine), numbers(theirs)
        assert all(torch.equal(value, found[key]) for key, value in expected.items())
    assert whole.average.steps == resumed.average.steps == 15 * parts.get("steps_per_batch", 1)
    assert torch.equal(whole.random.get_state(), resumed.random.get_state())
    if hasattr(whole, "memory"):
        assert whole.memory.state_dict() == resumed.memory.state_dict()
    assert whole.memory_report() == resumed.memory_report()


def test_a_state_with_grown_heads_is_taken_up_by_a_learner_that_has_none_yet():
    whole, half, resumed = (learner("er", num_classes=None, **every_part("er", {})) for _ in range(3))
    steps = list(batches(3))
    for number, (x, y, task) in enumerate(steps):
        whole.observe(x, y, task)
        if number < 5:
            half.observe(x, y, task)
    resumed.load_state_dict(half.state_dict())
    for x, y, task in steps[5:]:
        resumed.observe(x, y, task)
    for mine, theirs in ((whole.model, resumed.model), (whole.average.model, resumed.average.model)):
        assert torch.equal(parameters(mine), parameters(theirs))


@pytest.mark.parametrize(("name", "given"), VARIANTS)
def test_the_average_is_weighed_beside_the_memory(name, given):
    stream, parts = coloured_squares(tasks=1, per_class=8, side=8), every_part(name, given)
    subject = learner(name, **parts)
    learn(subject, stream)
    report = subject.memory_report()
    tensors = [*subject.model.parameters(), *subject.model.buffers()]
    assert report["bytes_by_part"]["average"] == sum(tensor.nbytes for tensor in tensors)
    assert report["memory_bytes"] == (subject.memory.nbytes if hasattr(subject, "memory") else 0)
    assert report["memory_bytes"] <= report["budget_bytes"]
    assert report["bytes"] == sum(report["bytes_by_part"].values())


@pytest.mark.parametrize("given", [{}, {"replay_current": True, "augment": "flip"}], ids=["plain", "parts"])
def test_work_that_a_gpu_puts_off_draws_in_the_same_order(given):
    """Images may arrive in a sample a step late: looking at a run must not change it."""
    stream = coloured_squares(per_class=10, side=8)
    at_once, later, looked_at = (learner("samc", keeps="sample", codec="raw", buffer_size=2, **given) for _ in range(3))
    for subject in (later, looked_at):
        subject.engine.deferred = DeferredQueue(lag=1)
        subject.engine.when_on_host = subject.engine.deferred.when_on_host
    for task in stream:
        for x, y in task.batches(4):
            for subject in (at_once, later, looked_at):
                subject.observe(x, y, task.id)
            looked_at.memory_report()
    assert at_once.memory.state_dict() == later.memory.state_dict() == looked_at.memory.state_dict()
    assert torch.equal(parameters(at_once.model), parameters(later.model))
    assert torch.equal(parameters(at_once.model), parameters(looked_at.model))


# -- what lies on the device, and what a state has


@pytest.mark.parametrize("name", ["gem", "er"])
def test_memories_of_past_tasks_are_held_once_and_counted_with_the_current_ones(name):
    subject = learner(name, **{"replay_current": True} if name == "er" else {})
    for x, y, task in batches(3):
        subject.observe(x, y, task)
    (pool,) = subject.replay.pool
    assert [memory.task for memory in subject.past] == [0, 1]
    assert torch.equal(pool.x, torch.cat([memory.x for memory in subject.past]))
    assert torch.equal(pool.tasks, torch.cat([memory.tasks for memory in subject.past]))
    for memory in subject.past:
        assert memory.x.untyped_storage().data_ptr() == pool.x.untyped_storage().data_ptr()
        assert memory.y.untyped_storage().data_ptr() == pool.y.untyped_storage().data_ptr()
    past = len(pool.y) * (4 * np.prod(SHAPE) + 8 + 8)  # pixels, a label and a task
    now = live.FIRST_ROOM * (4 * np.prod(SHAPE) + 8) if name == "er" else 0
    assert subject.memory_report()["working_set_bytes"] == past + now
    again = learner(name, **{"replay_current": True} if name == "er" else {})
    again.load_state_dict(subject.state_dict())
    assert again.memory_report()["working_set_bytes"] == past + now
    subject.end_task(coloured_squares(per_class=8, side=8)[2])
    assert subject.memory_report()["working_set_bytes"] == past + now  # of the last task at its end
    assert not subject.replay.nbytes + subject.live.nbytes


def test_only_the_memories_that_constrain_a_step_are_augmented():
    subject = learner("gem", augment="flip", constraints="sampled:1", replay_size=3)
    for x, y, task in batches(3):
        subject.observe(x, y, task)
    shown, augment = [], subject.replay.augmented
    subject.replay.augmented = lambda batch: shown.append(batch) or augment(batch)
    memories = subject.replay.memories(1.0)
    assert len(memories) == len(shown) == 1
    assert len(shown[0].y) == 3
    assert len(subject.replay.memories()) == 2


def test_heads_that_grow_after_a_state_was_loaded_are_those_that_would_have_grown():
    """Classes to come are drawn by the seed: by the state's, in the average too, whatever the learner began with."""
    whole, resumed = (learner("er", num_classes=None, average=0.9, seed=seed) for seed in (1, 5))
    x, y = random_batch(4, SHAPE)
    whole.observe(x, y, 0)
    resumed.load_state_dict(whole.state_dict())
    for subject in (whole, resumed):
        subject.observe(x, y + 2, 1)
    for a, b in ((whole.model, resumed.model), (whole.average.model, resumed.average.model)):
        assert a.heads.num_classes == 4
        assert torch.equal(parameters(a), parameters(b))


def test_a_state_without_an_average_does_not_fit_a_learner_with_one():
    state, subject = learner("er").state_dict(), learner("er", average=0.9)
    with pytest.raises(ConfigError, match=r"the state has no average of the network.*make it with average=0"):
        subject.load_state_dict(state)


# -- what does nothing, or cannot be


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("er", {"distil": 0.5}, "--distil holds old heads to the average of the network; add --average 0.99"),
        ("finetune", {"distil": 0.5}, "--distil holds old heads to the average of the network; add --average"),
        ("gem", {"replay_weight": 1.0}, "--replay-weight does nothing where memory only constrains a step; leave it"),
        ("agem", {"replay_current": True}, "--replay-current does nothing where memory only constrains a step"),
        ("samc", {"replay": "gem", "replay_weight": 1.0}, "--replay-weight does nothing where memory only constrains"),
        ("samc", {"replay": "agem", "replay_current": True}, "--replay-current does nothing where memory only"),
        ("lwf", {"distil": 0.5}, "lwf has no --distil"),
        ("icarl", {"replay_current": True}, "icarl has no --replay-current"),
        ("finetune", {"replay_size": 5}, "finetune has no --replay-size"),
        ("finetune", {"average": 1.0}, r"average is in \[0, 1\), got 1.0; 0.99 is a good start"),
        ("finetune", {"average": -0.1}, r"average is in \[0, 1\), got -0.1"),
        ("er", {"average": 0.9, "distil": -1.0}, "distil is at least 0, got -1.0; 1 is a good start"),
        ("er", {"replay_size": -1}, "replay-size is at least 0, got -1"),
        ("er", {"replay_weight": -0.5}, "replay-weight is at least 0, got -0.5; 1 is a good start"),
        ("er", {"replay_weight": float("nan")}, "replay-weight is at least 0, got nan"),
        ("er", {"steps_per_batch": 0}, "steps-per-batch is at least 1, got 0; 2 to 10 are usual"),
        ("der", {"steps_per_batch": 2}, "--steps-per-batch does nothing with der, which has none; leave it out"),
        (
            "mer",
            {"steps_per_batch": 2},
            "--steps-per-batch does nothing with mer, whose --meta-batches they are; leave it out",
        ),
        ("icarl", {"steps_per_batch": 2}, "icarl has no --steps-per-batch"),
        ("er", {"augment": "crop"}, r"unknown augment 'crop': did you mean 'crop\+flip'"),
    ],
)
def test_what_does_nothing_or_cannot_be_is_one_clear_error(name, given, message):
    with pytest.raises(ConfigError, match=message) as error:
        learner(name, **given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("flags", [("--replay-current",), ("--no-replay-current",)])
def test_a_switch_on_the_command_line_is_the_setting(flags, command):
    code, out, err = command("run", "--model", "gem", "--device", "cpu", *flags)
    assert (code, out) == (2, "")
    assert err == "samc: --replay-current does nothing where memory only constrains a step; leave it out\n"


@pytest.mark.parametrize(("name", "given"), [*VARIANTS, ("der", {}), ("lwf", {}), ("ewc", {}), ("ebm", {})])
def test_with_every_part_on_the_steps_that_a_gpu_records_are_the_steps_of_a_cpu(name, given):
    """Its engine's plain way, which is recorded and joins the batches of several tasks."""
    parts = every_part(name, given) | {"augment": "flip"}
    plain, recorded = (learner(name, **parts) for _ in range(2))
    recorded.engine.device, recorded.engine.graphs = torch.device("cuda"), Replaying()
    for place, (x, y, task) in enumerate(batches(6)):
        expected, found = (float(subject.observe(x, y, task).loss) for subject in (plain, recorded))
        assert found == pytest.approx(expected, rel=1e-4), (place, task)
    assert sum(tape.replays for tape in recorded.engine.graphs.tapes) > 20
