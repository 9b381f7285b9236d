"""The learners: GEM against an independent implementation, the contract, the state, and a toy that must be learnt."""

import copy

import numpy as np
import pytest
import quadprog
import torch
from torch import nn
from torch.nn import functional as F

import samc
from samc.errors import ConfigError, DataError
from samc.learners import LEARNERS, Learner
from samc.memory import full_selection
from samc.memory.selection import MAX_LEVEL, upsampled
from samc.models import ReducedResNet18
from toys import PLAIN, PLAIN_CONE, coloured_squares, random_batch

SHAPE = (3, 12, 12)
TASKS = ((0, 1), (2, 3), (4, 5), (6, 7))
PAPER = {"replay": "gem", "codec": "coo", "threshold": 0.7, "completion": "telea+autoencoder", "lr": 0.1, **PLAIN_CONE}
# SAMC as in the paper, in true bytes


def learner(name, **settings):
    return LEARNERS[name](8, SHAPE, **{"task_classes": TASKS, "seed": 1, **settings})


def parameters(learner):
    return torch.cat([p.detach().flatten() for p in learner.model.parameters()])


class IndependentGEM:
    """GEM written down straight from its paper and its authors' description: backward(), an optimiser, quadprog."""

    def __init__(self, lr, margin, memories):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            self.net = nn.Sequential(ReducedResNet18(3), nn.Linear(160, 8))
        self.net.to(memory_format=torch.channels_last)
        self.optimiser = torch.optim.SGD(self.net.parameters(), lr=lr)
        self.margin, self.memories = margin, memories
        self.store = {}
        self.projected = 0

    def loss_gradient(self, x, y, task):
        self.net.train()
        self.optimiser.zero_grad()
        backbone, linear = self.net
        mine = slice(2 * task, 2 * task + 2)
        logits = F.linear(backbone(x).mean((2, 3)), linear.weight[mine], linear.bias[mine])
        F.cross_entropy(logits, y - 2 * task).backward()
        return torch.cat([p.grad.reshape(-1) for p in self.net.parameters()])

    def observe(self, x, y, task):
        x = x.contiguous(memory_format=torch.channels_last).float() / 255
        past = [k for k in self.store if k != task]
        references = [self.loss_gradient(*self.store[k], k) for k in past]
        g = self.loss_gradient(x, y, task)
        if any(float(r @ g) < 0 for r in references):
            memory = torch.stack(references).double().numpy()
            gram = memory @ memory.T
            bound = np.full(len(past), self.margin)
            v = quadprog.solve_qp(
                gram + 1e-3 * np.eye(len(past)), -memory @ g.double().numpy(), np.eye(len(past)), bound
            )[0]
            self.projected += 1
            g = g + torch.from_numpy(v).float() @ torch.stack(references)
        start = 0
        for p in self.net.parameters():
            p.grad = g[start : start + p.numel()].view_as(p)
            start += p.numel()
        self.optimiser.step()
        old_x, old_y = self.store.get(task, (x[:0], y[:0]))
        self.store[task] = (torch.cat([old_x, x])[-self.memories :], torch.cat([old_y, y])[-self.memories :])


@pytest.mark.slow
@pytest.mark.parametrize("lr", [0.01, 0.1])
def test_gem_equals_an_independent_implementation(lr):
    ours = learner("gem", lr=lr, buffer_size=10, memory_strength=0.5)
    theirs = IndependentGEM(lr, 0.5, 10)
    for task, steps in enumerate((3, 3, 3, 20)):
        for step in range(steps):
            x, y = random_batch(10, SHAPE, TASKS[task], seed=100 * task + step)
            ours.observe(x, y, task)
            theirs.observe(x, y, task)
    torch.testing.assert_close(
        parameters(ours), torch.cat([p.detach().flatten() for p in theirs.net.parameters()]), atol=1e-5, rtol=0
    )
    for a, b in zip(ours.model.buffers(), theirs.net.buffers(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    assert theirs.projected > 5  # so that the cone was really met


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in ("ebm", "der")])
def test_with_one_task_every_method_that_has_the_same_loss_is_finetune(name):
    """DER++ needs the logits of all classes, and is the same to rounding only: test_der.py has its plain step."""
    own = {"mer": {"meta_lr": 1.0}, "samc": PLAIN}
    finetune, other = learner("finetune", lr=0.05), learner(name, lr=0.05, **own.get(name, {}))
    for step in range(3):
        for method in (finetune, other):
            method.observe(*random_batch(5, SHAPE, seed=step), 0)
    assert torch.equal(parameters(finetune), parameters(other))


@pytest.mark.slow
def test_samc_that_keeps_everything_is_gem():
    """Threshold 0 keeps at least all pixels but the least salient; with a full mask the two are the same method."""
    gem, samc_ = learner("gem", lr=0.05), learner("samc", **PAPER | {"lr": 0.05})
    samc_.select = lambda maps: (full_selection(len(maps), *SHAPE[1:]), np.zeros(len(maps), bool))
    samc_.stored = copy.deepcopy(gem.memory)
    for task in range(3):
        for step in range(4):
            x, y = random_batch(10, SHAPE, TASKS[task], seed=10 * task + step)
            gem.observe(x, y, task)
            samc_.observe(x, y, task)
    torch.testing.assert_close(parameters(gem), parameters(samc_), atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_contract(name):
    subject = learner(name)
    assert isinstance(subject, Learner)
    report = subject.memory_report()
    needed = {"budget_bytes", "bytes", "bytes_by_part", "memory_bytes", "images_per_task", "accounting"}
    assert needed <= set(report)
    assert report["bytes"] == sum(report["bytes_by_part"].values())


SMALL = {
    "buffer_size": 2,
    "autoencoder_steps": 3,
    "encoder_steps": 3,
    "fisher_images": 4,
    "meta_batches": 2,
    "inner_steps": 2,
}
VARIANTS = [
    ("samc", PAPER),
    ("samc", PAPER | {"replay": "er"}),
    ("samc", PAPER | {"replay": "agem", "completion": "zero"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), [*((name, {}) for name in LEARNERS), *VARIANTS])
def test_state_saved_in_the_middle_of_a_task_goes_on_bit_for_bit(name, settings, tmp_path):
    stream = coloured_squares(per_class=15)
    names = LEARNERS[name].Settings.names()
    kwargs = {"lr": 0.05, **{k: v for k, v in SMALL.items() if k in names}, **settings}

    def fresh(seed):
        return LEARNERS[name](6, SHAPE, seed=seed, **kwargs)

    def learn(subject, skip=0, stop=None):
        for number, (task, x, y, last) in enumerate(batches):
            if skip <= number and (stop is None or number < stop):
                subject.observe(x, y, task.id)
                if last:
                    subject.end_task(task)

    batches = []
    for task in stream:
        mine = [(task, x, y) for x, y in task.batches(5)]
        batches += [(*item, i == len(mine) - 1) for i, item in enumerate(mine)]
    whole = fresh(4)
    learn(whole)
    half = fresh(4)
    learn(half, stop=9)
    torch.save(half.state_dict(), tmp_path / "state.pt")
    resumed = fresh(5)  # another seed: all that matters is in the state
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    learn(resumed, skip=9)
    assert torch.equal(parameters(whole), parameters(resumed))
    assert all(torch.equal(a, b) for a, b in zip(whole.model.buffers(), resumed.model.buffers(), strict=True))
    assert whole.memory_report() == resumed.memory_report()


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, PLAIN | {"replay": "er"}, {"replay": "agem"}])
def test_a_toy_stream_is_learnt_and_remembered(given):
    stream = coloured_squares()
    subject = samc.SAMC(6, SHAPE, buffer_size=4, autoencoder_steps=5, **PAPER | {"lr": 0.03} | given)
    for task in stream:
        for x, y in task.batches(10, epochs=3):
            subject.observe(x, y, task.id)
        subject.end_task(task)
    accuracies = [float((subject.predict(t.test_x, t.id) == t.test_y).double().mean()) for t in stream]
    assert np.mean(accuracies) > 0.9, accuracies
    assert all(kept > 4 for kept in subject.memory_report()["images_per_task"])
    assert all(stored.cost <= subject.memory.budget_bytes for stored in subject.memory.by_task.values())


@pytest.mark.slow
def test_the_example_of_the_readme():
    learner = samc.SAMC(num_classes=20, image_shape=(3, 32, 32), buffer_size=10)
    for task in samc.streams.split_synthetic(seed=0, train_per_class=5, test_per_class=1):
        for x, y in task.batches(10):
            learner.observe(x, y, task.id)
        learner.end_task(task)
    labels = learner.predict(x, task=0)
    assert labels.shape == (len(x),)
    assert set(labels.tolist()) <= {0, 1, 2, 3}


@pytest.mark.parametrize("codec", ["coo", "bitmask", "cam", "cam+deflate", "gist:thumb:2+cam"])
def test_kept_pixels_survive_the_way_through_memory(codec):
    subject = learner("samc", **PAPER | {"completion": "telea", "threshold": 0.5, "codec": codec})
    x, y = random_batch(6, SHAPE)
    stats = subject.observe(x, y, 0)
    completed = subject.complete(*subject.memory.recall(0)[:2])
    held = len(completed)
    mask = torch.from_numpy(stats.kept.masks[-held:])[:, None].expand(-1, 3, -1, -1)
    assert torch.equal((completed * 255).round().to(torch.uint8)[mask], x[-held:][mask])
    levels = upsampled(stats.kept.maps, *SHAPE[1:])
    speaking = levels.max((1, 2)) > 0
    assert speaking.any()
    assert np.array_equal(stats.kept.masks[speaking], levels[speaking] > int(0.5 * MAX_LEVEL))
    assert stats.kept.masks[~speaking].all() or subject.memory.codec.gist


@pytest.mark.slow
def test_a_common_budget_is_shared_out_as_tasks_arrive():
    subject = learner("samc", memory_bytes="2KB", **PAPER | {"threshold": 0.0, "completion": "telea"})
    for step in range(3):
        for task in range(3):
            subject.observe(*random_batch(4, SHAPE, TASKS[task], seed=step), task)
            assert subject.memory.nbytes <= 2000
            assert all(stored.cost <= subject.memory.budget_bytes for stored in subject.memory.by_task.values())
    assert subject.memory.budget_bytes == 2000 // 3


def test_images_that_keep_too_much_are_cut_to_the_budget_and_counted():
    subject = learner("samc", buffer_size=1, **PAPER | {"threshold": 0.0})
    subject.observe(*random_batch(4, SHAPE), 0)
    report = subject.memory_report()
    assert report["memory_bytes"] <= report["budget_bytes"] == 3 * 144 + 1
    assert report["bent_masks"] == 4


@pytest.mark.parametrize("settings", [{}, PAPER])
def test_batch_of_one_works_everywhere(settings):
    subject = learner("samc", **settings)
    for task in range(2):
        for step in range(3):
            subject.observe(*random_batch(1, SHAPE, TASKS[task], seed=step), task)
    assert subject.predict(random_batch(1, SHAPE)[0], 0).shape == (1,)


def test_a_head_grows_by_its_labels_where_nobody_declared_it():
    subject = samc.Finetune(8, SHAPE)
    subject.observe(*random_batch(4, SHAPE, (2, 3)), 0)
    subject.observe(*random_batch(4, SHAPE, (6,)), 0)
    assert subject.model.heads.task_classes == {0: (2, 3, 6)}


@pytest.mark.parametrize("settings", [{}, PAPER])
def test_a_state_handed_out_does_not_go_on_learning(settings):
    subject = learner("samc", **settings)
    subject.observe(*random_batch(4, SHAPE), 0)
    state = subject.state_dict()
    before = copy.deepcopy(state)
    subject.observe(*random_batch(4, SHAPE, seed=1), 0)
    assert all(torch.equal(v, state["model"][k]) for k, v in before["model"].items() if not k.endswith("_extra_state"))
    assert state["memory"] == before["memory"]


@pytest.mark.parametrize("settings", [{}, PAPER])
def test_predict_leaves_the_learner_as_it_was(settings):
    subject = learner("samc", **settings)
    subject.observe(*random_batch(4, SHAPE), 0)
    before = copy.deepcopy(subject.state_dict())
    subject.predict(random_batch(7, SHAPE)[0], 0)
    after = subject.state_dict()
    assert subject.model.training
    assert all(torch.equal(v, after["model"][k]) for k, v in before["model"].items() if not k.endswith("_extra_state"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (x, y + 2), r"labels \[2, 3\] are not among task 0's classes \[0, 1\]"),
        (lambda x, y: (x[:, :2], y), r"images are \(batch, 3, 12, 12\); got \(4, 2, 12, 12\)"),
        (lambda x, y: (x[:0], y[:0]), r"images are \(batch, 3, 12, 12\); got \(0, 3, 12, 12\)"),
        (lambda x, y: (x.float() / 255 * float("nan"), y), "float images are from 0 to 1; got NaN"),
        (lambda x, y: (x.float(), y), "float images are from 0 to 1; got .* to 255"),
        (lambda x, y: (x.int(), y), "images are uint8 from 0 to 255 or floats from 0 to 1; got torch.int32"),
        (lambda x, y: (x, y[:3]), r"labels are one whole number per image; got torch.int64 \(3,\) for 4 images"),
        (lambda x, y: (x, y.float()), "labels are one whole number per image; got torch.float32"),
    ],
)
def test_batches_that_make_no_sense_are_refused_before_anything_changes(change, message):
    subject = learner("samc")
    before = parameters(subject)
    x, _ = random_batch(4, SHAPE)
    x.view(-1)[0] = 255
    with pytest.raises(DataError, match=message):
        subject.observe(*change(x, torch.tensor([0, 1, 0, 1])), 0)
    assert torch.equal(before, parameters(subject))
    assert subject.memory.nbytes == 0


@pytest.mark.parametrize("settings", [{}, PAPER])
def test_float_images_are_the_same_images(settings):
    first, second = learner("samc", **settings), learner("samc", **settings)
    x, y = random_batch(4, SHAPE)
    first.observe(x, y, 0)
    second.observe(x.float() / 255, y, 0)
    torch.testing.assert_close(parameters(first), parameters(second))
    assert first.memory.state_dict() == second.memory.state_dict()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 1.0}, r"threshold is in \[0, 1\), got 1.0; the paper uses 0.7"),
        ({"threshold": -0.1}, r"threshold is in \[0, 1\)"),
        ({"lr": 0.0}, "lr is above 0, got 0.0"),
        ({"buffer_size": 0}, "buffer-size is at least 1"),
        ({"completion": "autoencode"}, "unknown completion 'autoencode': did you mean 'autoencoder'"),
        ({"codec": "co"}, "unknown codec 'co': did you mean 'coo'"),
        ({"keeps": "newer"}, "unknown keeps 'newer': did you mean 'newest'"),
        ({"codec": "jpeg"}, "unknown codec 'jpeg': did you mean 'jpeg:Q'"),
        ({"codec": "webp:no"}, "codec webp wants a number after it, such as webp:20; got 'webp:no'"),
        ({"codec": "coo+deflate"}, r"coo keeps the paper's plain colours; use cam\+deflate"),
        ({"codec": "jpeg:101"}, "the quality of jpeg is from 1 to 100, got 101"),
        ({"memory_bytes": "ten"}, "memory-bytes is like 30KB/task, or 600KB for all tasks together; got 'ten'"),
        ({"replay": "gem", "memory_strength": -1.0}, "memory-strength is at least 0, got -1.0"),
        ({"lr": float("inf")}, "lr is above 0, got inf"),
        ({"lr": 1e39}, r"lr is at most 3.4e\+38, got a larger number"),
        ({"autoencoder_lr": 0.0}, "autoencoder-lr is above 0, got 0.0"),
    ],
)
def test_settings_that_cannot_be_used(settings, message):
    with pytest.raises(ConfigError, match=message):
        learner("samc", **settings)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "own"), [("gem", "newest"), ("er", "sample"), ("samc", "sample")])
def test_a_full_memory_holds_the_newest_images_or_a_sample(name, own):
    """Sixty images of one task, the first thirty of class 0, in a memory for ten: the newest are of class 1 only."""
    x = torch.randint(0, 256, (60, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    kept = {}
    for keeps in (None, "newest", "sample"):
        # threshold 0 and values accounting: about as many images of SAMC's as of the others
        more = {"codec": "coo", "threshold": 0.0, "accounting": "values"} if name == "samc" else {}
        chosen = {} if keeps is None else {"keeps": keeps}
        made = learner(name, task_classes=[(0, 1)], **chosen, **more)
        for first in range(0, 60, 10):
            made.observe(x[first : first + 10], torch.full((10,), int(first >= 30)), 0)
        kept[keeps] = made.memory.recall(0)[2].tolist()
    assert set(kept["newest"]) == {1}
    assert set(kept["sample"]) == {0, 1}
    assert kept[None] == kept[own]


def test_a_task_that_was_never_seen_cannot_be_asked_about():
    with pytest.raises(ConfigError, match=r"task 3 has not been seen yet; known: \[\]"):
        samc.Finetune(8, SHAPE).predict(random_batch(2, SHAPE)[0], 3)


def test_completed_memories_are_let_go_at_the_end_of_a_task_and_made_anew_by_what_was_learnt_there(monkeypatch):
    """Once per task, and never with the autoencoder of before line 16."""
    stream = coloured_squares(per_class=10)
    subject = samc.SAMC(6, SHAPE, preset="paper", autoencoder_steps=2, lr=0.02)
    recalled = []
    recall = subject.recall
    monkeypatch.setattr(subject, "recall", lambda: recalled.append(subject.current_task) or recall())
    for task in stream:
        subject.begin_task(task)
        for x, y in task.batches(10):
            subject.observe(x, y, task.id)
        subject.end_task(task)
        assert subject.past == []
    assert recalled == [0, 1, 2]
    before = subject.autoencoder.state_dict()["decoder.0.weight"].clone()
    subject.observe(*next(iter(stream[2].batches(10))), 2)  # goes on after its end
    assert recalled == [0, 1, 2, 2]
    assert torch.equal(before, subject.autoencoder.state_dict()["decoder.0.weight"])
    assert [memory.task for memory in subject.past] == [0, 1]
