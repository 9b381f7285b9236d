"""ER and MER as the SAMC authors' code has them: each replayed image goes through the network alone, by plain loops."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import samc
from networks import make
from record_makers import of_job
from samc.engine import Engine
from samc.engine.cuda import Folding
from samc.errors import ConfigError
from samc.experiments.items import ITEMS
from samc.experiments.jobs import learn, make_job
from samc.experiments.record_store import is_of_job
from samc.learners import LEARNERS
from samc.report.reproduction import publish
from test_engine import batch, model, narrow  # noqa: F401
from test_learners import SHAPE, TASKS, learner, parameters
from test_worth import table
from toys import Replaying, needs_triton, random_batch

RELEASED = {
    "er": {"replay_one_by_one": True},
    "mer": {"replay_one_by_one": True, "meta_statistics": True, "meta_lr": 0.3, "within_meta_lr": 0.6},
}


def noted(subject):
    """What it draws from now on, step by step."""
    drawn, draw = [], subject.replay.draw

    def note(beside):
        drawn.append(draw(beside))
        return drawn[-1]

    subject.replay.draw = note
    return drawn


def by_backward(net, x, y, task, replayed):
    """(Σ losses of the batch together + Σ losses of each replayed image alone) / their number, and backward()."""

    def loss(images, labels, head):
        logits = net.heads.linear(net.backbone(images).mean((2, 3)))[:, 2 * head : 2 * head + 2]
        return F.cross_entropy(logits, labels - 2 * head, reduction="sum")

    net.train()
    net.zero_grad()
    total = loss(x.float().contiguous(memory_format=torch.channels_last) / 255, y, task)
    for image in replayed:
        total = total + loss(image.x, image.y, int(image.tasks))
    total = total / (len(y) + len(replayed))
    total.backward()
    return float(total.detach())


def interpolated(before, net, rate):
    """The whole state, statistics too, as much of the way as `rate` says."""
    now = net.state_dict()
    net.load_state_dict({key: value + (now[key] - value) * rate for key, value in before.items()}, strict=False)


def state(net):
    return {key: value.clone() for key, value in net.state_dict().items() if isinstance(value, torch.Tensor)}


def same_network(found, expected):
    for (key, mine), theirs in zip(state(found).items(), state(expected).values(), strict=True):
        if mine.is_floating_point():  # batches are counted otherwise by a state that was interpolated
            torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-5, msg=key)


def begun(name, lr=0.05, **more):
    """A learner on its third task, and a network that is its twin."""
    subject = learner(name, lr=lr, **RELEASED[name] | more)
    for task in range(2):
        for step in range(2):
            subject.observe(*random_batch(6, SHAPE, TASKS[task], seed=10 * task + step), task)
    subject.as_batch(*random_batch(5, SHAPE, TASKS[2], seed=50), 2)
    return subject, copy.deepcopy(subject.model)


@pytest.mark.parametrize("more", [{}, {"replay_size": 3, "replay_current": True}], ids=["plain", "parts"])
def test_er_equals_a_loop_over_the_batch_and_then_each_replayed_image(more):
    subject, net = begun("er", **more)
    drawn = noted(subject)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(3):  # each from where the learner is: of a few pixels, steps blow up what was rounded
        x, y = random_batch(5, SHAPE, TASKS[2], seed=50 + step)
        net.load_state_dict(copy.deepcopy(subject.model.state_dict()))
        loss = subject.observe(x, y, 2).loss
        assert {len(image.y) for image in drawn[-1]} == {1}
        assert len(drawn[-1]) == more.get("replay_size", 5)
        assert by_backward(net, x, y, 2, drawn[-1]) == pytest.approx(float(loss), rel=1e-5)
        optimiser.step()
        same_network(subject.model, net)
    counts = {int(value) for key, value in state(subject.model).items() if key.endswith("batches_tracked")}
    assert len(counts) == 1  # once per batch and once per replayed image
    assert counts == {int(state(net)["backbone.stem.1.num_batches_tracked"])}


@pytest.mark.parametrize("more", [{}, {"meta_batches": 2}], ids=["once", "twice"])
def test_mer_equals_a_loop_with_one_step_and_reptile_on_the_whole_state(more):
    lr = 0.01  # at 0.05 a second step makes 1e-5 of what was rounded in the first, on some machines
    subject, net = begun("mer", lr, **more)
    drawn = noted(subject)
    optimiser = torch.optim.SGD(net.parameters(), lr=lr)
    for step in range(3):
        x, y = random_batch(5, SHAPE, TASKS[2], seed=50 + step)
        net.load_state_dict(copy.deepcopy(subject.model.state_dict()))
        drawn.clear()
        subject.observe(x, y, 2)
        assert len(drawn) == more.get("meta_batches", 1)
        start = state(net)
        for replayed in drawn:
            inner = state(net)
            by_backward(net, x, y, 2, replayed)
            optimiser.step()
            interpolated(inner, net, 0.6)
        interpolated(start, net, 0.3)
        same_network(subject.model, net)


def test_without_it_reptile_leaves_running_statistics_where_the_steps_led():
    x, y = random_batch(5, SHAPE)
    plain, along = (learner("mer", lr=0.05, meta_lr=0.3, meta_statistics=along) for along in (False, True))
    start = state(plain.model)
    for subject in (plain, along):
        subject.observe(x, y, 0)
    assert torch.equal(parameters(plain), parameters(along))
    for key, value in start.items():
        if "running" in key:
            wanted = value + 0.3 * (state(plain.model)[key] - value)
            torch.testing.assert_close(state(along.model)[key], wanted, msg=key)


@pytest.mark.parametrize("name", RELEASED)
def test_a_first_task_without_replay_is_the_same_with_and_without(name):
    plain, alone = (learner(name, lr=0.05, **given) for given in ({}, {"replay_one_by_one": True}))
    for step in range(3):
        losses = [subject.observe(*random_batch(5, SHAPE, seed=step), 0).loss for subject in (plain, alone)]
        assert torch.equal(*losses)
    assert torch.equal(parameters(plain), parameters(alone))


def test_replayed_images_come_in_random_order_each_of_them_once():
    subject, _ = begun("er")
    seen = []
    for _ in range(20):
        images = subject.replay.draw(20)  # all that there are
        assert len({image.x.numpy().tobytes() for image in images}) == len(images) == 20
        seen.append([int(image.tasks) for image in images])
    assert all(sorted(tasks) == [0] * 10 + [1] * 10 for tasks in seen)
    assert len({tuple(tasks) for tasks in seen}) > 15


# -- the engine


PARTS = [batch(2, 4, 1), batch(0, 1, 2), batch(1, 1, 3), batch(0, 1, 4)]
WEIGHTS = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.5, 2.0, 0.0])


@pytest.mark.parametrize(
    ("weights", "recorded"),
    [(None, False), (WEIGHTS, False), (None, True)],
    ids=["equal", "weighted", "recorded"],
)
def test_batches_apart_are_groups_of_their_own_in_one_mean(weights, recorded):
    """Also as a GPU does it, where batches of one image are recorded like any other."""
    net = model()
    other, engine = copy.deepcopy(net).train(), Engine(net)
    if recorded:
        engine.device, engine.graphs = torch.device("cuda"), Replaying()
    shares = (torch.ones(7) if weights is None else weights) / 7
    for _ in range(4):
        losses = [F.cross_entropy(other(b.x, b.task), b.y - 2 * b.task, reduction="none") for b in PARTS]
        mean = torch.cat(losses) @ shares
        grads = torch.autograd.grad(mean, [*other.parameters()])
        found, loss = engine.gradient(PARTS, weights, apart=True)
        torch.testing.assert_close(found, torch.cat([grad.flatten() for grad in grads]), atol=1e-6, rtol=1e-4)
        torch.testing.assert_close(loss, mean.detach(), atol=1e-6, rtol=1e-5)
    for mine, theirs in zip(net.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-5)
    if recorded:  # the third and the fourth of four calls, and the third and all others of twelve
        assert sorted(tape.replays for tape in engine.graphs.tapes) == [1, 9]


@pytest.mark.slow
@needs_triton
def test_batches_apart_are_the_same_in_a_gpus_kernels(narrow):  # noqa: F811
    net = model(13).to(memory_format=torch.channels_last)
    other, engine = copy.deepcopy(net), Engine(net)
    parts = [batch(2, 3, 1, 13), batch(0, 1, 2, 13), batch(1, 1, 3, 13)]
    expected, mean = Engine(other).gradient(parts, apart=True)
    engine.folding = Folding(net, engine.program, engine.graphs.constants)
    engine.device = torch.device("cuda")
    found, loss = engine.gradient(parts, apart=True)
    assert float((found - expected).norm() / expected.norm()) < 1e-4
    torch.testing.assert_close(loss, mean)
    for mine, theirs in zip(net.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)


# -- settings


@pytest.mark.parametrize("name", RELEASED)
def test_a_record_states_it_and_one_from_before_is_of_a_run_without(name):
    short = {"model": name, "n_tasks": 2, "samples_per_task": 20}
    job = make_job(short | {"replay_one_by_one": True})
    record = learn(job, None, torch.device("cpu")).record
    assert record.config["replay_one_by_one"] is True
    assert is_of_job(record, job)
    assert not is_of_job(record, make_job(short))
    jobs = {variant.label: job for (_, variant, _), job in ITEMS["released"].jobs(seeds=[0], models=[name]).items()}
    old = of_job(jobs[name], 0.5)
    for setting in ("replay_one_by_one", "meta_statistics"):
        old.config.pop(setting, None)
    assert {label for label, job in jobs.items() if is_of_job(old, job)} == {name}


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - set(RELEASED)))
def test_other_methods_refuse_it(name):
    with pytest.raises(ConfigError, match=f"{name} has no --replay-one-by-one"):
        learner(name, replay_one_by_one=True)


def test_it_does_nothing_where_parts_mix_batch_and_replay():
    with pytest.raises(ConfigError, match=r"--replay-one-by-one does nothing with --inner-steps above 1.*leave it out"):
        learner("mer", inner_steps=2, replay_one_by_one=True)
    with pytest.raises(ConfigError, match="er has no --meta-statistics"):
        learner("er", meta_statistics=True)


class Shrinking(nn.Sequential):
    """Ends in one value per channel, where torch's batch norm has no variance of a single image."""

    def __init__(self):
        super().__init__(nn.Conv2d(3, 8, 12), nn.BatchNorm2d(8), nn.ReLU())


@pytest.mark.parametrize("name", RELEASED)
def test_a_network_that_takes_no_single_image_is_refused_at_once(name):
    with pytest.raises(ConfigError, match=r"a single image leaves.*leave out --replay-one-by-one") as error:
        LEARNERS[name](4, SHAPE, model=Shrinking(), replay_one_by_one=True)
    assert "\n" not in str(error.value)
    LEARNERS[name](4, SHAPE, model=Shrinking())


def test_looking_whether_a_network_takes_a_single_image_leaves_it_as_it_was():
    network = make("torchvision-like")
    before = copy.deepcopy(network.state_dict())
    subject = samc.ER(4, (3, 16, 16), model=network, replay_one_by_one=True)
    assert all(torch.equal(value, before[key]) for key, value in subject.model.backbone.state_dict().items())


# -- the table


def test_each_row_is_compared_with_its_own_method_as_in_table_1(tmp_path):
    assert len(ITEMS["released"].jobs()) == (2 * 3 + 6) * 5
    jobs = ITEMS["released"].jobs(streams=["split-cifar100"])
    of_table1 = {job.name for job in ITEMS["table1"].jobs(streams=["split-cifar100"]).values()}
    assert {variant.label for (_, variant, _), job in jobs.items() if job.name in of_table1} == {"samc", "er", "mer"}
    differ = {}
    plain = {variant.model: job.config.as_dict() for (_, variant, _), job in jobs.items() if variant.against is None}
    for (_, variant, _), job in jobs.items():
        changed = {key: value for key, value in job.config.as_dict().items() if value != plain[variant.model][key]}
        differ[variant.label] = set(changed) - {"seed"}
    assert differ == {
        "samc": set(),
        "samc, as released": {"completion", "threshold"},
        "er": set(),
        "er, replayed one by one": {"replay_one_by_one"},
        "er, as released": {"replay_one_by_one", "replay_current"},
        "mer": set(),
        "mer, replayed one by one": {"replay_one_by_one"},
        "mer, as released": {"replay_one_by_one", "replay_current", "meta_statistics"},
    }
    gain = {"er, replayed one by one": -0.03, "mer, as released": -0.06}
    results = {
        key: of_job(job, 0.5 + 0.01 * key[2] + gain.get(key[1].label, 0.0), seconds={"total": 60.0})
        for key, job in jobs.items()
    }
    publish(ITEMS["released"], results, tmp_path, {})
    header, _, *rows = table(tmp_path / "released.md")
    assert header[0] == "method"
    found = {row[0]: row[4:7] for row in rows}
    assert list(found) == list(differ)
    assert found["er, replayed one by one"] == ["er", "5", "−3.00"]
    assert found["mer, as released"] == ["mer", "5", "−6.00"]
    assert found["mer"] == ["–", "–", "–"]
