"""Any network: every method learns it, saves it and loads it; gradients and statistics are those of a plain loop."""

import copy
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import samc
from networks import FAST, NETWORKS, SHAPE, Small, make
from samc.engine import Batch, Engine
from samc.engine.program import compile_program
from samc.errors import ConfigError
from samc.learners import LEARNERS
from samc.models import Classifier, Heads, probe
from samc.models.resnet import ReducedResNet18
from samc.saliency import saliency_map
from toys import Replaying, coloured_squares

TASKS = ((0, 1), (2, 3), (4, 5))
METHODS = {
    "gem": {},
    "samc, paper": {"preset": "paper", "threshold": 0.5},
    "samc, best": {},
    "er": {},
    "der": {},
    "agem": {},
    "ewc": {"fisher_images": 3},
    "icarl": {},
    "mer": {"meta_batches": 2},
}
SMALL = {"lr": 0.02, "buffer_size": 3}


def classifier(name, seed=0):
    backbone = make(name, seed)
    found = probe(backbone, SHAPE)
    model = Classifier(backbone, Heads(found.width, 6), found)
    for task, classes in enumerate(TASKS):
        model.heads.assign(task, classes)
    return model


def batch(task, count, seed):
    random = torch.Generator().manual_seed(seed)
    return Batch(torch.rand(count, *SHAPE, generator=random), torch.arange(count) % 2 + 2 * task, task)


def by_loop(model, groups):
    """As public implementations do it: backward(), one group after the other; by nothing of the engine's."""
    rows = []
    for group in groups:
        model.train()
        model.zero_grad()
        features = model.backbone(torch.cat([part.x for part in group]))
        pooled = features.mean((2, 3)) if features.ndim == 4 else features.mean(1) if features.ndim == 3 else features
        logits = model.heads.linear(pooled)
        mask = torch.full_like(logits, -torch.inf)
        tasks = torch.cat([torch.full_like(part.y, part.task) for part in group])
        for row, task in enumerate(tasks.tolist()):
            mask[row, list(TASKS[task])] = 0
        F.cross_entropy(logits + mask, torch.cat([part.y for part in group])).backward()
        rows.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad]))
    model.zero_grad()
    return torch.stack(rows)


GROUPS = [[batch(0, 4, 1)], [batch(1, 3, 2)], [batch(0, 2, 5), batch(1, 2, 6)]]


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_every_group_and_running_statistics_are_those_of_a_plain_loop(name):
    model = classifier(name)
    plain = copy.deepcopy(model)
    expected = by_loop(plain, [*GROUPS, [batch(2, 5, 3)]])
    engine = Engine(model)
    rows, loss = engine.gradients(GROUPS, batch(2, 5, 3))
    gap = (rows - expected).norm(dim=1) / expected.norm(dim=1)
    assert float(gap.max()) < 1e-5
    for (key, found), wanted in zip(model.named_buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-5, msg=key)
    assert all(parameter.grad is None for parameter in model.parameters())
    one, one_loss = engine.gradient([batch(2, 5, 3)])
    torch.testing.assert_close(one_loss, loss, atol=1e-4, rtol=1e-4)
    assert float((one - expected[-1]).norm() / expected[-1].norm()) < 1e-4  # statistics play no part in train mode


# momentum None reads the count of batches on the host: what happens then is below
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(NETWORKS) - FAST - {"reduced, momentum None"}))
def test_the_plain_way_can_be_recorded(name):
    """What a GPU records and replays, here: the same rows for other images, and statistics that move each time."""
    model = classifier(name)
    plain, engine = copy.deepcopy(model), Engine(model)
    engine.graphs, sizes = Replaying(), (4, 3)
    past, now = [batch(0, 4, 1)], batch(1, 3, 2)
    for seed in range(5):
        now = batch(1, 3, seed)
        function = partial(engine.one_by_one, sizes, ("float32",) * 2)
        rows, _ = engine.graphs("key", function, *engine.model.joined([*past, now]))
        expected = by_loop(plain, [past, [now]])
        assert float(((rows - expected).norm(dim=1) / expected.norm(dim=1)).max()) < 1e-5
    assert engine.graphs.tapes[0].replays == 2
    for found, wanted in zip(model.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-5)


def test_what_cannot_be_recorded_goes_on_as_it_was_called():
    """A GPU refuses to record what waits for it; the answer stays right, and the line says why."""

    class Refusing(Replaying):
        def capture(self, function, inputs):
            raise RuntimeError("operation not permitted when stream is capturing\nmore words")

    model = classifier("reduced, momentum None")
    engine = Engine(model)
    engine.graphs = Refusing()
    for _ in range(5):
        total, double = engine.recorded(lambda x: (x.sum(), 2 * x), torch.ones(3))
        assert float(total) == 3
        assert torch.equal(double, torch.full((3,), 2.0))
    assert engine.way.endswith("not recorded: operation not permitted when stream is capturing)")


@pytest.mark.parametrize("name", NETWORKS)
def test_which_way_a_network_takes(name):
    engine = Engine(classifier(name))
    assert (engine.program is not None) == (name in FAST)
    assert engine.way.startswith("fast" if name in FAST else "plain")


STRANGE = {
    "is Dropout": lambda net: net.blocks.append(nn.Dropout(0.5)),
    "has a bias": lambda net: setattr(net.stem[0], "bias", nn.Parameter(torch.zeros(20))),
    "has dilation": lambda net: setattr(net.blocks[0].conv1, "dilation", (2, 2)),
    "has groups": lambda net: setattr(net.blocks[0].conv1, "groups", 2),
    "has padding_mode": lambda net: setattr(net.blocks[0].conv1, "padding_mode", "circular"),
    "has padding ": lambda net: setattr(net.blocks[0].conv1, "padding", (0, 0)),
    "has stride": lambda net: setattr(net.blocks[2].conv1, "stride", (3, 3)),
    "has kernel_size": lambda net: setattr(net.blocks[0], "conv1", nn.Conv2d(20, 20, 5, padding=2, bias=False)),
    "has momentum None": lambda net: setattr(net.blocks[0].norm1, "momentum", None),
    "differ in momentum": lambda net: setattr(net.blocks[0].norm1, "momentum", 0.3),
    "differ in momentum or eps": lambda net: setattr(net.blocks[0].norm1, "eps", 0.3),
    "no weights": lambda net: setattr(net.blocks[0], "norm1", nn.BatchNorm2d(20, affine=False)),
    "is frozen": lambda net: net.blocks[0].conv1.weight.requires_grad_(False),
    "hook or a forward": lambda net: net.blocks[0].conv1.register_forward_hook(lambda *_: None),
    "a forward of its own": lambda net: setattr(net.blocks[0], "forward", lambda x, layers: x),
    "used twice": lambda net: net.blocks.append(net.blocks[1]),
    "share a parameter": lambda net: setattr(net.blocks[1].conv1, "weight", net.blocks[0].conv1.weight),
    "is SyncBatchNorm": lambda net: setattr(net.blocks[0], "norm1", nn.SyncBatchNorm(20)),
    "float64": lambda net: net.double(),
    "is InstanceNorm2d": lambda net: setattr(net.blocks[0], "norm1", nn.InstanceNorm2d(20)),
    "ParametrizedConv2d": lambda net: nn.utils.parametrizations.weight_norm(net.blocks[0].conv1),
}


@pytest.mark.parametrize("reason", STRANGE)
def test_a_network_that_the_engine_would_get_wrong_cannot_reach_the_fast_way(reason):
    network = ReducedResNet18(3)
    model = Classifier(network, Heads(160, 6), probe(network, SHAPE))
    assert compile_program(model)[0] is not None
    STRANGE[reason](network)
    program, why = compile_program(model)
    assert program is None
    assert reason in why


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_method_learns_saves_and_loads_every_network(name, method, tmp_path):
    stream = coloured_squares(per_class=10, side=16)

    def fresh(seed):
        kind = LEARNERS[method.partition(",")[0]]
        taken = {key: value for key, value in SMALL.items() if key in kind.Settings.names()}
        if method == "samc, paper":
            taken["autoencoder_steps"] = 2
        return kind(6, SHAPE, model=make(name, seed), seed=seed, **{**taken, **METHODS[method]})

    def learn(learner, first, last):
        for number, (task, x, y, end) in enumerate(steps):
            if first <= number < last:
                learner.observe(x, y, task.id)
                if end:
                    learner.end_task(task)

    steps = []
    for task in stream:
        batches = list(task.batches(10))
        steps += [(task, x, y, number == len(batches) - 1) for number, (x, y) in enumerate(batches)]
    whole, half, resumed = fresh(1), fresh(1), fresh(2)
    before = torch.cat([p.detach().flatten() for p in whole.model.parameters() if p.requires_grad])
    learn(whole, 0, len(steps))
    learn(half, 0, 3)
    torch.save(half.state_dict(), tmp_path / "state.pt")
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    learn(resumed, 3, len(steps))
    after, again = (
        torch.cat([p.detach().flatten() for p in learner.model.parameters() if p.requires_grad])
        for learner in (whole, resumed)
    )
    assert after.isfinite().all()
    assert not torch.equal(before, after)
    if "frozen" not in name:  # what is frozen is the network's own, and another network has another
        assert torch.equal(after, again)
        assert all(torch.equal(a, b) for a, b in zip(whole.model.buffers(), resumed.model.buffers(), strict=True))
    assert whole.memory_report()["images_per_task"] == resumed.memory_report()["images_per_task"]
    assert set(whole.predict(stream[0].test_x, 0).tolist()) <= {0, 1}


@pytest.mark.parametrize(("name", "grid"), [("torchvision-like", (2, 2)), ("vit", (4, 4)), ("mlp", (4, 4))])
def test_saliency_has_the_networks_own_grid_and_the_codec_says_so(name, grid):
    learner = samc.SAMC(6, SHAPE, model=make(name), codec="cam", threshold=0.5, replay="gem", completion="telea")
    x = torch.randint(0, 256, (4, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    stats = learner.observe(x, torch.tensor([0, 1, 0, 1]), 0)
    assert stats.kept.maps.shape == (4, *grid)
    assert learner.memory.codec.spec == f"cam:{grid[0]}x{grid[1]}"
    assert learner.memory_report()["codec"] == f"cam:{grid[0]}x{grid[1]}"


class WithClassToken(nn.Module):
    """Tokens with one before the grid; their values are known: token k holds the mean of patch k."""

    num_prefix_tokens = 1

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x):
        patches = F.avg_pool2d(x, 4).mean(1).flatten(1)[:, :, None]
        tokens = torch.cat([patches, 1 - patches], 2) * self.scale
        return torch.cat([torch.full_like(tokens[:, :1], 100.0), tokens], 1)


def test_grad_cam_on_tokens_by_hand():
    """The class token counts for nothing; α is the head's weight over the number of tokens."""
    network = WithClassToken()
    model = Classifier(network, Heads(2, 2), probe(network, (3, 8, 16)))
    model.heads.assign(0, (0, 1))
    assert model.found.grid == (2, 4)
    x = torch.rand(2, 3, 8, 16, generator=torch.Generator().manual_seed(1))
    maps = saliency_map(model, x, torch.tensor([0, 1]), 0)
    patches = F.avg_pool2d(x, 4).mean(1)
    for row, label in enumerate((0, 1)):
        first, second = (model.heads.linear.weight[label] / 9).tolist()
        expected = (first * patches[row] + second * (1 - patches[row])).clamp_min(0)
        torch.testing.assert_close(maps[row], expected)


class Weighing(nn.Module):
    """A vector: the image's pixels weighed by known numbers."""

    def __init__(self, weights):
        super().__init__()
        self.weights = nn.Parameter(weights)

    def forward(self, x):
        return (x * self.weights).flatten(1).sum(1, keepdim=True)


def test_the_gradient_at_the_pixels_by_hand():
    weights = torch.randn(3, 8, 12, generator=torch.Generator().manual_seed(0))
    network = Weighing(weights)
    model = Classifier(network, Heads(1, 2), probe(network, (3, 8, 12)))
    model.heads.assign(0, (0, 1))
    maps = saliency_map(model, torch.rand(2, 3, 8, 12), torch.tensor([0, 1]), 0)
    slopes = model.heads.linear.weight[:, 0].abs()
    expected = weights.abs().amax(0).unflatten(1, (3, 4)).unflatten(0, (2, 4)).mean((1, 3))
    torch.testing.assert_close(maps, expected * slopes[:, None, None])


def test_saliency_leaves_any_network_as_found():
    for name in ("vit", "mlp", "torchvision-like"):
        model = classifier(name)
        before = copy.deepcopy(model.state_dict())
        model.train()
        saliency_map(model, torch.rand(3, *SHAPE), torch.tensor([0, 1, 0]), 0)
        assert model.training
        assert all(parameter.grad is None for parameter in model.parameters())
        for key, value in model.state_dict().items():
            assert key.endswith("_extra_state") or torch.equal(value, before[key])


class Fixed(nn.Module):
    def __init__(self, output):
        super().__init__()
        self.output, self.weight = output, nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.output(x)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (lambda x: (x, x), "a network gives a map"),
        (lambda x: x.sum(), "a network gives a map"),
        (lambda x: x @ torch.ones(5, 5), r"does not take images of \(3, 16, 16\)"),
    ],
)
def test_networks_that_give_no_features_are_refused_when_the_learner_is_made(output, message):
    with pytest.raises(ConfigError, match=message):
        samc.ER(6, SHAPE, model=Fixed(output))


def test_a_batch_that_leaves_batch_norm_one_value_says_so():
    learner = samc.ER(6, (3, 4, 4), model=Small())
    x = torch.zeros(1, 3, 4, 4, dtype=torch.uint8)
    samc.ER(6, (3, 4, 4), model=Small()).observe(x, torch.tensor([0]), 0)  # a map of 2x2 still has a variance
    learner = samc.ER(6, (3, 2, 2), model=Small())
    with pytest.raises(samc.UserError, match="a batch of 1 leaves batch norm one value per channel"):
        learner.observe(x[..., :2, :2], torch.tensor([0]), 0)


class TimmLike(nn.Module):
    """A network whose forward pass pools and classifies, as timm's do."""

    def __init__(self):
        super().__init__()
        self.body, self.fc = Small(), nn.Linear(8, 1000)

    def forward_features(self, x):
        return self.body(x)

    def forward(self, x):
        return self.fc(self.forward_features(x).mean((2, 3)))


def test_a_network_with_forward_features_is_taken_before_its_pooling():
    network = TimmLike()
    learner = samc.SAMC(6, SHAPE, model=network)
    assert learner.model.found.kind == "map"
    assert learner.model.found.grid == (8, 8)
    x = torch.rand(2, *SHAPE)
    network.eval()
    assert torch.equal(learner.engine.features(x), network.body(x))
    for seed in range(2):  # its own classifier has no part in anything
        learner.observe((x * 255).byte(), torch.tensor([0, 1]), seed // 2)
    assert torch.equal(network.fc.weight, learner.model.backbone.network.fc.weight)


@pytest.mark.slow
def test_a_class_is_no_network():
    """In a process of its own: here types are checked before the constructor sees them."""
    code = "import samc, torch; samc.ER(6, (3, 8, 8), model=torch.nn.Identity)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ConfigError: model is an nn.Module, made and ready; got <class" in run.stderr


def test_weights_go_with_a_backbone_by_name():
    with pytest.raises(ConfigError, match="load them into your model before you pass it"):
        samc.ER(6, SHAPE, model=Small(), weights="somewhere.pt")


@pytest.mark.slow
def test_heads_grow_as_classes_arrive():
    """Without num_classes: the same logits for old classes before and after, new ones drawn by the seed."""
    for name in ("finetune", "ewc", "lwf", "icarl", "gem", "ebm", "samc", "joint", "mer", "eec"):
        more = {"fisher_images": 2} if name == "ewc" else {"encoder_steps": 2} if name == "eec" else {}
        learner = LEARNERS[name](image_shape=(3, 8, 8), lr=0.01, **more)
        stream = coloured_squares(tasks=3, per_class=4, side=8)
        for task in stream:
            for x, y in task.batches(4):
                learner.observe(x, y, task.id)
            features = torch.rand(2, learner.model.found.width)
            with torch.no_grad():
                logits = learner.model.heads(features, task.id)
            learner.end_task(task)
            learner.assign(7, [2 * task.id + 2])  # a class of the next task
            with torch.no_grad():
                assert torch.equal(learner.model.heads(features, task.id), logits)
        assert learner.model.heads.num_classes == 7
        assert learner.model.heads.task_classes[2] == (4, 5)
        state = learner.state_dict()
        again = LEARNERS[name](image_shape=(3, 8, 8), lr=0.01, **more)
        again.load_state_dict(state)
        assert torch.equal(again.predict(stream[1].test_x, 1), learner.predict(stream[1].test_x, 1))


def test_normalised_images_are_the_same_images():
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
    x = torch.randint(0, 256, (6, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 1] * 3)
    normalised = (x / 255 - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    learners = [samc.ER(6, SHAPE, model=make("torchvision-like"), mean=mean, std=std) for _ in range(2)]
    seen = []
    learners[0].model.backbone.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    learners[0].observe(x, y, 0)
    learners[1].observe(normalised, y, 0)
    torch.testing.assert_close(seen[-1], normalised)  # the network sees what its weights were made for
    for a, b in zip(learners[0].model.parameters(), learners[1].model.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
    assert learners[0].memory.state_dict() == learners[1].memory.state_dict()  # memory keeps bytes
    with pytest.raises(samc.UserError, match="mean and std come together"):
        samc.ER(6, SHAPE, mean=mean)


def test_arrays_are_taken_with_their_channels_first_or_last():
    learners = [samc.ER(6, SHAPE) for _ in range(3)]
    x = torch.randint(0, 256, (6, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    y = [0, 1, 0, 1, 0, 1]
    learners[0].observe(x, torch.tensor(y), 0)
    learners[1].observe(x.numpy(), np.array(y), np.int64(0))
    learners[2].observe(np.ascontiguousarray(x.numpy().transpose(0, 2, 3, 1)), y, torch.tensor(0))
    states = [learner.memory.state_dict() for learner in learners]
    assert states[0] == states[1] == states[2]
    answers = [learner.predict(x.numpy(), 0) for learner in learners]
    assert torch.equal(answers[0], answers[1])
