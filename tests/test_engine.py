"""Flat gradients against backward(), the engine against a plain loop, kernels in Triton's interpreter."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from samc.engine import PRECISIONS, Batch, Engine, descend, gradient, trainable
from samc.engine import graphs as graphs_module
from samc.engine.cpu import do_aside, in_parallel
from samc.engine.cuda import CHUNK_PIXELS, Folding, chunks
from samc.engine.graphs import IDLE_CALLS, MOST_BYTES, MOST_CONSTANTS, Constants, CudaGraphCache
from samc.engine.plain import masked_gradient
from samc.errors import ConfigError
from samc.learners.gem import GEM
from samc.learners.samc import SAMC
from samc.memory import full_selection
from samc.models import Classifier, EnergyHeads, Heads, probe
from samc.projection import project
from toys import Replaying, needs_triton, reduced


def model(side=10):
    net = reduced(6, side=side, seed=3)
    for task, classes in enumerate(((0, 1), (2, 3), (4, 5))):
        net.heads.assign(task, classes)
    return net


def batch(task, count, seed, side=10):
    random = torch.Generator().manual_seed(seed)
    return Batch(torch.rand(count, 3, side, side, generator=random), torch.arange(count) % 2 + 2 * task, task)


def by_backward(net, x, y, columns):
    """Mean cross-entropy where each row sees its own two columns of the full output."""
    net = copy.deepcopy(net).train()
    logits = net.heads.linear(net.features(x).mean((2, 3)))
    mask = torch.full_like(logits, -torch.inf)
    for row, first in enumerate(columns):
        mask[row, first : first + 2] = 0
    loss = F.cross_entropy(logits + mask, y)
    loss.backward()
    return torch.cat([p.grad.flatten() for p in net.parameters()]), loss.detach(), net


def by_loop(net, groups):
    """Rows as the public implementations make them, one group after the other; the network's statistics move."""
    return torch.stack([gradient(net, group)[0] for group in groups])


def largest_gap(rows, expected):
    return float(((rows - expected).norm(dim=1) / expected.norm(dim=1)).max())


def test_one_task():
    net, now = model(), batch(1, 6, 0)
    expected, loss, after = by_backward(net, now.x, now.y, [2] * 6)
    found, found_loss = gradient(net, [now])
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(found_loss, loss)
    assert all(p.grad is None for p in net.parameters())
    for a, b in zip(net.buffers(), after.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_several_tasks_in_one_batch_each_with_its_own_head():
    net, parts = model(), [batch(2, 4, 1), batch(0, 2, 2), batch(1, 3, 3)]
    columns = [4] * 4 + [0] * 2 + [2] * 3
    x, y = torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts])
    expected, loss, _ = by_backward(net, x, y, columns)
    found, found_loss = gradient(net, parts)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(found_loss, loss)


@pytest.mark.parametrize("cores", [1, 2])
def test_rows_are_those_of_a_plain_loop(cores):
    net, memories, now = model(), [[batch(0, 5, 1)], [batch(1, 3, 2)], [batch(0, 2, 5), batch(1, 2, 6)]], batch(2, 4, 3)
    after = copy.deepcopy(net)
    expected = by_loop(after, [*memories, [now]])
    torch.set_num_threads(cores)
    try:
        rows, loss = Engine(net).gradients(memories, now)
    finally:
        torch.set_num_threads(1)
    assert largest_gap(rows, expected) < 1e-5
    torch.testing.assert_close(loss, gradient(copy.deepcopy(net), [now])[1])
    for a, b in zip(net.buffers(), after.buffers(), strict=True):  # as if each group had been shown in turn
        torch.testing.assert_close(a, b)
    assert all(p.grad is None for p in net.parameters())


def test_a_row_does_not_depend_on_its_neighbours():
    net, groups = model(), [[batch(0, 5, 1)], [batch(1, 3, 2)]]
    together = Engine(net).gradients(groups, batch(2, 4, 3))[0][1].clone()
    assert torch.equal(together, Engine(net).gradients(groups[1:], batch(2, 6, 4))[0][0])


@pytest.mark.slow
def test_after_fifty_steps_with_five_past_tasks_parameters_are_those_of_the_loop():
    shape, classes = (3, 12, 12), [(2 * t, 2 * t + 1) for t in range(6)]
    ours = GEM(12, shape, task_classes=classes, lr=0.05)
    for task in range(5):
        ours.memory.add(task, *remembered(task, shape))
    theirs = copy.deepcopy(ours.model)
    for step in range(50):
        random = torch.Generator().manual_seed(step)
        x, y = torch.randint(0, 256, (10, *shape), generator=random, dtype=torch.uint8), torch.arange(10) % 2 + 10
        ours.observe(x, y, 5)
        rows = by_loop(theirs, [*([memory] for memory in ours.past), [Batch(x.float() / 255, y, 5)]])
        descend(trainable(theirs), project(rows[-1], rows[:-1], 0.5), 0.05)
    found, expected = (torch.cat([p.detach().flatten() for p in net.parameters()]) for net in (ours.model, theirs))
    assert float((found - expected).norm() / expected.norm()) < 1e-3


def remembered(task, shape):
    random = torch.Generator().manual_seed(task + 500)
    x = torch.randint(0, 256, (10, *shape), generator=random, dtype=torch.uint8)
    return x.numpy(), full_selection(10, *shape[1:]), (torch.arange(10) % 2 + 2 * task).numpy()


def test_bfloat16_points_the_same_way_and_the_batch_stays_exact():
    net, memories, now = model(), [[batch(0, 8, 1)], [batch(1, 8, 2)]], batch(2, 8, 3)
    exact = Engine(copy.deepcopy(net)).gradients(memories, now)[0].clone()
    rough = Engine(net, "bf16").gradients(memories, now)[0]
    assert torch.equal(rough[-1], exact[-1])
    assert (F.cosine_similarity(rough[:-1], exact[:-1]) > 0.9).all()
    assert not torch.equal(rough[:-1], exact[:-1])
    with pytest.raises(ConfigError, match="unknown reference-precision 'fp8'"):
        GEM(4, (3, 12, 12), reference_precision="fp8")


def test_a_single_value_per_channel_is_still_learnt_from():
    net, memories, now = model(8), [[batch(0, 1, 1, side=8)], [batch(1, 3, 2, side=8)]], batch(2, 1, 3, side=8)
    after = copy.deepcopy(net)
    expected = by_loop(after, [*memories, [now]])
    torch.testing.assert_close(Engine(net).gradients(memories, now)[0], expected)


@pytest.fixture
def narrow(monkeypatch):
    """A network of few channels and sums of few parts, since Triton's interpreter is slow; the way is the same."""
    monkeypatch.setattr("samc.models.resnet.WIDTHS", (4, 8, 8, 12))
    monkeypatch.setattr("samc.engine.kernels.batch_norm.SPLITS", 2)


def folding_engine():
    """The engine as it is on a GPU, but for the graphs; kernels run in Triton's interpreter."""
    net = model(13).to(memory_format=torch.channels_last)
    engine = Engine(net)
    engine.folding = Folding(net, engine.program, engine.graphs.constants)
    return engine


@pytest.mark.slow
@needs_triton
def test_a_folded_batch_has_the_rows_of_a_plain_loop(narrow):
    """The kernels that a GPU runs, in Triton's interpreter: an odd size, groups of different sizes."""
    engine = folding_engine()
    net = engine.model
    groups = [[batch(0, 3, 1, 9)], [batch(1, 2, 2, 9)], [batch(0, 1, 7, 9), batch(2, 2, 3, 9)]]
    after = copy.deepcopy(net)
    expected = by_loop(after, groups)
    parts = [part for group in groups for part in group]
    rows, losses = engine.folded((3, 2, 3), ("float32",) * 3, *engine.model.joined(parts))
    assert largest_gap(rows, expected) < 1e-4
    torch.testing.assert_close(losses, torch.stack([gradient(copy.deepcopy(net), group)[1] for group in groups]))
    for a, b in zip(net.buffers(), after.buffers(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.slow
@needs_triton
def test_inference_sees_what_the_network_in_eval_mode_sees(narrow):
    """Convolution, batch norm, shortcut and ReLU in one kernel, on running statistics that have moved."""
    engine = folding_engine()
    net = engine.model
    gradient(net, [batch(0, 4, 1, 13)])
    x = batch(1, 3, 2, 13).x
    with torch.no_grad():
        found = engine.features(x)
        torch.testing.assert_close(found, net.eval().features(x), atol=1e-5, rtol=1e-4)


@needs_triton
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_every_kernel_that_is_launched_was_compiled_beforehand(monkeypatch, narrow, precision):
    """Else it would be compiled in the middle of learning, one at a time; sizes of batches are no matter."""
    from samc.engine.kernels import batch_norm, convolution
    from samc.engine.kernels.warmup import warm_up

    engine, x = folding_engine(), batch(0, 7, 1, 13).x
    net, folding = engine.model, engine.folding
    varying = {"pixels", "images", "splits", "area", "residual", "has_residual", "relu", "epsilon"}

    def kernels(work):
        found = set()

        def note(kernel, grid, *arguments, **options):
            named = zip(kernel.arg_names, arguments, strict=True)
            fixed = tuple(
                (name, value.dtype if isinstance(value, torch.Tensor) else value)
                for name, value in named
                if isinstance(value, torch.Tensor) or name not in varying
            )
            found.add((kernel.__name__, fixed, tuple(options.items())))

        monkeypatch.setattr(convolution, "launch_kernel", note)
        monkeypatch.setattr(batch_norm, "launch_kernel", note)
        work()
        return found

    def learn():
        rows, masks = torch.empty(2, engine.length), torch.ones(7, net.heads.num_classes) > 0
        folding.fold(rows, (3, 4), precision, x, torch.zeros(7, dtype=torch.int64), masks)

    learning, inference = kernels(learn), kernels(lambda: folding.infer(x))
    assert len(learning) > 20
    assert len(inference) > 10
    assert learning <= kernels(lambda: warm_up(folding, x.shape[1:], PRECISIONS[precision], torch.device("cpu")))
    assert inference <= kernels(lambda: warm_up(folding, x.shape[1:], None, torch.device("cpu")))


@needs_triton
def test_threads_that_only_compile_launch_nothing():
    from samc.engine.kernels.launch import launch_kernel, only_compile

    class Kernel:
        def __init__(self):
            self.calls = []

        def warmup(self, *arguments, grid, **options):
            self.calls.append(("compiled", grid, arguments, options))

        def __getitem__(self, grid):
            return lambda *arguments, **options: self.calls.append(("launched", grid, arguments, options))

    kernel = Kernel()
    with ThreadPoolExecutor(1, initializer=only_compile) as pool:
        pool.submit(launch_kernel, kernel, (2,), 1, warps=4).result()
    launch_kernel(kernel, (2,), 1, warps=4)
    assert kernel.calls == [("compiled", (2,), (1,), {"warps": 4}), ("launched", (2,), (1,), {"warps": 4})]


@pytest.mark.slow
@needs_triton
def test_a_folded_batch_in_chunks(monkeypatch, narrow):
    engine, groups = folding_engine(), [[batch(t, 3, t)] for t in range(3)]
    monkeypatch.setattr("samc.engine.cuda.CHUNK_PIXELS", 3 * 100)
    joined = engine.model.joined([part for group in groups for part in group])
    after = copy.deepcopy(engine.model)
    expected = by_loop(after, groups)
    rows, _ = engine.folded((3, 3, 3), ("float32",) * 3, *joined)
    assert largest_gap(rows, expected) < 1e-4
    for a, b in zip(engine.model.buffers(), after.buffers(), strict=True):
        torch.testing.assert_close(a, b)


@needs_triton
@pytest.mark.parametrize(
    ("cin", "cout", "side", "stride"), [(20, 40, 3, 2), (40, 80, 1, 2), (80, 80, 3, 1), (3, 20, 3, 1)]
)
def test_convolutions_as_torch_has_them(cin, cout, side, stride):
    from samc.engine.kernels import convolution

    random = torch.Generator().manual_seed(cin)
    x, weight = torch.randn(3, cin, 5, 5, generator=random), torch.randn(cout, cin, side, side, generator=random)
    x, weight = (part.contiguous(memory_format=torch.channels_last) for part in (x, weight))
    y = F.conv2d(x, weight, stride=stride, padding=side // 2)
    dy = torch.randn(y.shape, generator=random).contiguous(memory_format=torch.channels_last)
    (ready,) = convolution.split([weight], convolution.turned_places([weight]), torch.float32)
    how, close = (stride, side // 2), {"atol": 1e-3, "rtol": 1e-4}
    torch.testing.assert_close(convolution.convolve(x, ready, *how), y, **close)
    expected = torch.nn.grad.conv2d_input(x.shape, weight, dy, stride, side // 2)
    torch.testing.assert_close(convolution.convolve_back(dy, ready, x, *how), expected, **close)
    starts = torch.tensor([0, 1, 3], dtype=torch.int32)
    rows = torch.zeros(2, weight.numel() + 7)[:, 7:]  # a part of longer rows, as gradients are
    convolution.weight_gradients(x, dy, starts, weight.shape, *how, rows)
    for row, part in zip(rows, (slice(0, 1), slice(1, 3)), strict=True):
        expected = torch.nn.grad.conv2d_weight(x[part], weight.shape, dy[part], stride, side // 2)
        torch.testing.assert_close(row.view_as(weight), expected, **close)


@given(st.lists(st.tuples(st.integers(1, 900), st.sampled_from(["float32", "bf16"])), min_size=1, max_size=30))
@settings(max_examples=200)
def test_chunks_cover_all_groups_in_order_and_fit(groups):
    pixels = 128 * 128
    sizes, precisions = zip(*groups, strict=True)
    found = list(chunks(sizes, pixels, precisions))
    assert [number for part in found for number in range(part.start, part.stop)] == list(range(len(sizes)))
    for part in found:
        inside = sizes[part]
        assert len(inside) == 1 or sum(inside) * pixels <= CHUNK_PIXELS
        assert len(set(precisions[part])) == 1


def test_chunks_are_as_few_as_memory_allows():
    precisions = ("bf16", "bf16", "bf16", "float32")
    assert list(chunks((3, 4, 5, 6), 1, precisions)) == [slice(0, 3), slice(3, 4)]
    assert list(chunks((CHUNK_PIXELS, 1, CHUNK_PIXELS - 1, 1), 1, precisions)) == [
        slice(0, 1), slice(1, 3), slice(3, 4),
    ]  # fmt: skip


def test_work_in_parallel_keeps_its_order_and_its_errors():
    torch.set_num_threads(2)
    try:
        squares = [lambda number=number: number**2 for number in range(9)]
        assert in_parallel(squares, [1] * 9) == [number**2 for number in range(9)]
        assert in_parallel([torch.get_num_threads] * 5, [1] * 5) == [1] * 5
        assert in_parallel([torch.get_num_threads] * 3, [1, 9, 1]) == [1, 2, 1]  # what is too large for one gets all
        assert in_parallel([torch.get_num_threads] * 2, [1, 9]) == [2, 2]  # and what would be alone
        assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError):
            in_parallel([lambda: 1 // 1, lambda: 1 // 0], [1, 1])
    finally:
        torch.set_num_threads(1)


def test_side_work_is_done_before_the_results_are_there_and_keeps_its_errors():
    def job(number, work):
        do_aside(work)
        return number

    torch.set_num_threads(2)
    try:
        done = []
        jobs = [lambda number=number: job(number, lambda: done.append(number)) for number in range(7)]
        assert in_parallel(jobs, [1] * 7) == list(range(7))
        assert sorted(done) == list(range(7))
        for wrong in (0, 2, 4):  # in a round, in the last round, and left over
            with pytest.raises(ZeroDivisionError):
                in_parallel([lambda gap=n - wrong: job(gap, lambda: 1 // gap) for n in range(5)], [1] * 5)
    finally:
        torch.set_num_threads(1)


def test_constants_are_made_once_and_the_younger_ones_stay():
    made, constants = [], Constants()

    def get(key):
        return constants.get(key, lambda: made.append(key) or [key])

    first = get("first")
    for number in range(MOST_CONSTANTS):
        get(number)
    assert get("first") is first  # a generation later it is still there
    assert made.count("first") == 1
    for number in range(1000, 1000 + 3 * MOST_CONSTANTS):
        get(number)
    assert len(constants.young) + len(constants.old) <= 2 * MOST_CONSTANTS
    assert get("first") is not first


def test_without_a_gpu_nothing_is_recorded():
    graphs = CudaGraphCache(torch.device("cpu"), Constants())
    (found,) = graphs("twice", lambda x: (2 * x,), torch.ones(3))
    assert found.tolist() == [2, 2, 2]
    assert not graphs.graphs


def test_a_tensor_that_was_written_to_since_is_read_again():
    graphs, x, y = Replaying(), torch.ones(2), torch.ones(2)
    for number in range(6):
        x.fill_(number)
        (found,) = graphs("sum", lambda a, b: (a + b,), x, y)
        assert found.tolist() == [number + 1] * 2
    assert [tape.replays for tape in graphs.tapes] == [3]


def recording_engine(net):
    """The engine as it takes the plain way on a GPU, but for the device."""
    engine = Engine(net)
    engine.device, engine.graphs = torch.device("cuda"), Replaying()
    return engine


@pytest.mark.slow
def test_past_batches_are_joined_once_and_their_masks_follow_the_classes_of_their_tasks():
    net, memories = model(), [[batch(0, 4, 1)], [batch(1, 3, 2)]]
    after, engine = copy.deepcopy(net), recording_engine(net)

    def rows_are_those_of_the_loop(seed):
        now = batch(2, 4, seed)
        expected = by_loop(after, [*memories, [now]])
        rows, loss = engine.gradients(memories, now)
        assert largest_gap(rows, expected) < 1e-5
        torch.testing.assert_close(loss, gradient(copy.deepcopy(net), [now])[1])
        return expected

    before = rows_are_those_of_the_loop(0)
    joined = engine.past
    for seed in range(1, 6):
        rows_are_those_of_the_loop(seed)
    assert all(mine is theirs for mine, theirs in zip(engine.past, joined, strict=True))
    assert [tape.replays for tape in engine.graphs.tapes] == [3]
    for heads in (net.heads, after.heads):
        heads.assign(0, (0, 1, 5))  # a class that came late to a past task
    found = rows_are_those_of_the_loop(0)
    assert largest_gap(found[:1], before[:1]) > 0.1
    assert torch.equal(engine.past[2][0], torch.tensor([True, True, False, False, False, True]))
    rows_are_those_of_the_loop(1)
    assert [tape.replays for tape in engine.graphs.tapes] == [5]  # masks are read, not recorded
    for mine, theirs in zip(net.buffers(), after.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_past_batches_with_other_labels_or_of_another_task_are_joined_anew():
    net, memory = model(), batch(0, 4, 1)
    after, engine = copy.deepcopy(net), recording_engine(net)
    flipped = memory._replace(y=1 - memory.y)
    for past in (memory, flipped, flipped._replace(y=flipped.y + 2, task=1), memory):
        now = batch(2, 4, 3)
        expected = by_loop(after, [[past], [now]])
        assert largest_gap(engine.gradients([[past]], now)[0], expected) < 1e-5


def test_a_state_that_is_loaded_ends_what_was_recorded():
    learner = GEM(4, (3, 12, 12), task_classes=[(0, 1), (2, 3)])
    learner.engine.graphs.graphs["old"] = None
    learner.load_state_dict(learner.state_dict())
    assert learner.engine.graphs.graphs == {}


@pytest.mark.slow
@needs_triton
def test_a_network_that_has_diverged_shows_it(narrow):
    """The kernels' ReLU lets NaN pass, as torch's does."""
    engine, now = folding_engine(), batch(0, 3, 1, 9)
    with torch.no_grad():
        engine.model.backbone.stem[0].weight.fill_(torch.nan)
        assert engine.folded((3,), ("float32",), *engine.model.joined([now]))[1].isnan().all()
        assert engine.features(now.x).isnan().all()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "more"), [(GEM, {}), (SAMC, {"replay": "gem"})])
def test_sampled_constraints_look_at_so_many_tasks(kind, more):
    shape, classes = (3, 12, 12), [(2 * t, 2 * t + 1) for t in range(6)]
    learner = kind(12, shape, task_classes=classes, constraints="sampled:2", codec="raw", **more)
    for task in range(5):
        learner.memory.add(task, *remembered(task, shape))
    learner.begin(5)
    drawn = constraining(learner, 30)
    assert all(len(set(tasks)) == 2 and tasks == sorted(tasks) for tasks in drawn)
    assert {task for tasks in drawn for task in tasks} == set(range(5))
    many = kind(12, shape, task_classes=classes, constraints="sampled:9", codec="raw", **more)
    many.replay.prepare(learner.past)
    many.current_task, many.begun = 5, True
    assert constraining(many, 3) == [[0, 1, 2, 3, 4]] * 3


def constraining(learner, steps):
    """Which past tasks each step has a gradient of."""
    seen, inner = [], learner.engine.gradients

    def gradients(memories, now):
        seen.append([memory.task for group in memories for memory in group])
        return inner(memories, now)

    learner.engine.gradients = gradients
    for step in range(steps):
        learner.rule(learner.engine, batch(5, 2, step, 12), learner.replay)
    return seen


@pytest.mark.parametrize("text", ["some", "sampled", "sampled:0", "sampled:-1", "sampled:x"])
def test_bad_constraints_are_refused(text):
    with pytest.raises(ConfigError, match="constraints are all, mean, or sampled:K with K from 1; got"):
        GEM(4, (3, 12, 12), constraints=text)


def test_empty_constraints_are_refused():
    with pytest.raises(ConfigError, match="constraints is empty; leave it out, or give it a value"):
        GEM(4, (3, 12, 12), constraints="")


@pytest.mark.slow
def test_the_mean_constraint_is_a_gems():
    from samc.learners.agem import AGEM

    shape, classes = (3, 12, 12), [(2 * t, 2 * t + 1) for t in range(4)]
    gem, agem = (
        kind(8, shape, task_classes=classes, **more) for kind, more in ((GEM, {"constraints": "mean"}), (AGEM, {}))
    )
    for learner in (gem, agem):
        for task in range(3):
            learner.memory.add(task, *remembered(task, shape))
        for step in range(3):
            random = torch.Generator().manual_seed(step)
            learner.observe(torch.rand(6, *shape, generator=random), torch.arange(6) % 2 + 6, 3)
    assert all(torch.equal(a, b) for a, b in zip(gem.model.parameters(), agem.model.parameters(), strict=True))


class OwnPooling(Classifier):
    def pooled(self, features):
        return features.amax((2, 3))


PLAIN_WAYS = {
    "it is Sequential": lambda net: setattr(net, "backbone", nn.Sequential(net.backbone)),
    "stem.1 is GroupNorm": lambda net: net.backbone.stem.__setitem__(1, nn.GroupNorm(4, 20)),
    "stem.0 has stride (3, 3)": lambda net: setattr(net.backbone.stem[0], "stride", (3, 3)),
    "backbone.stem.0.weight is frozen": lambda net: net.backbone.stem[0].weight.requires_grad_(False),
    "its batch norms differ in momentum or eps": lambda net: setattr(net.backbone.stem[1], "eps", 1e-3),
    "backbone.extra is in no layer": lambda net: setattr(net.backbone, "extra", nn.Parameter(torch.ones(2))),
    "its heads are EnergyHeads": lambda net: setattr(net, "heads", EnergyHeads(160, 6)),
    "the classifier is OwnPooling": lambda net: setattr(net, "__class__", OwnPooling),
    "the classifier has a hook or a forward of its own": lambda net: net.heads.linear.register_forward_hook(
        lambda *_: None
    ),
}


@pytest.mark.parametrize("reason", PLAIN_WAYS)
def test_the_plain_way_names_its_reason(reason):
    net = model()
    engine = Engine(net)
    assert engine.way == "fast: a core per past task, gradients by hand"
    PLAIN_WAYS[reason](net)
    engine.refresh()
    assert engine.way == f"plain: one past task after the other by autograd ({reason})"
    assert engine.program is None
    if not reason.startswith("its heads"):
        groups, now = [[batch(0, 3, 1)], [batch(1, 2, 2)]], batch(2, 4, 3)
        expected = by_loop(copy.deepcopy(net), [*groups, [now]])
        torch.testing.assert_close(engine.gradients(groups, now)[0], expected)


@pytest.mark.parametrize("layer", [nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(3)])
def test_a_backbone_of_a_single_known_layer_takes_the_plain_way(layer):
    net = Classifier(layer, Heads(probe(layer, (3, 10, 10)).width, 6), probe(layer, (3, 10, 10)))
    net.heads.assign(0, (0, 1))
    engine = Engine(net)
    assert engine.way.endswith(f"(it is {type(layer).__name__})")
    assert engine.gradients([[batch(0, 3, 1)]], batch(0, 4, 3))[0].isfinite().all()


def test_on_a_gpu_the_way_says_so_and_why_nothing_is_recorded():
    class Refusing(Replaying):
        def capture(self, function, inputs):
            raise RuntimeError("operation not permitted when stream is capturing\nmore words")

    net = model()
    engine = recording_engine(net)
    assert engine.way == "fast: all past tasks in one recorded batch"
    net.backbone.stem[1] = nn.GroupNorm(4, 20)
    engine.refresh()
    engine.graphs = Refusing()
    assert engine.way == "plain: one past task after the other, as a graph (stem.1 is GroupNorm)"
    for _ in range(3):
        engine.recorded(lambda x: (2 * x,), torch.ones(3))
    assert engine.way.endswith("(stem.1 is GroupNorm; not recorded: operation not permitted when stream is capturing)")


def test_descend_is_sgd():
    net, other = model(), model()
    flat = torch.randn(sum(p.numel() for p in net.parameters()), generator=torch.Generator().manual_seed(0))
    start = 0
    for p in other.parameters():
        p.grad = flat[start : start + p.numel()].view_as(p).clone()
        start += p.numel()
    torch.optim.SGD(other.parameters(), lr=0.3).step()
    descend(trainable(net), flat, 0.3)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), other.parameters(), strict=True))


@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("lr", [0.01, 100.0])
def test_old_heads_are_held_in_a_folded_batch_as_in_a_plain_one(narrow, lr):
    """The teacher sees the batch by its own statistics, which do not move; what is held counts by class.

    At the larger rate a step would overshoot, and counts less.
    """
    engine, teacher = folding_engine(), folding_engine()
    with torch.no_grad():
        for parameter in teacher.model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    before = [buffer.clone() for buffer in teacher.model.buffers()]
    parts, held = [batch(2, 3, 1, 9), batch(0, 2, 2, 9)], (torch.tensor([0.2, 0.3, 0, 0, 0, 0]), torch.tensor(lr))
    x, y, masks = engine.model.joined(parts)
    shares = torch.tensor([0.3, 0.3, 0.3, 0.1, 0.2])
    frozen = copy.deepcopy(teacher.model)
    expected, loss = masked_gradient(copy.deepcopy(engine.model), x, y, masks, shares, (frozen, *held))
    rows, losses = engine.folded((5,), ("float32",), x, y, masks, shares, *held, teacher=teacher)
    assert largest_gap(rows, expected[None]) < 1e-4
    torch.testing.assert_close(losses[0], loss)
    assert all(torch.equal(was, now) for was, now in zip(before, teacher.model.buffers(), strict=True))
    assert loss > masked_gradient(copy.deepcopy(engine.model), x, y, masks, shares)[1]


def test_recordings_of_steps_long_past_give_their_memory_back(monkeypatch):
    """Each task has another step; of large images, eight recordings would fill a GPU that others need too."""
    cache, taken = Replaying(), [0]
    monkeypatch.setattr(graphs_module, "reserved_bytes", lambda: sum(taken))
    capture = cache.capture

    def large(function, inputs):
        taken.append(MOST_BYTES // 2 + 1)
        return capture(function, inputs)

    cache.capture = large
    x = torch.arange(3.0)

    def often(key, times):
        for _ in range(times):
            assert cache(key, lambda x: (2 * x,), x)[0].tolist() == [0, 2, 4]

    for key in "ab":
        often(key, 3)  # both are of the step that is being learnt
    assert all(cache.graphs[key].graph for key in "ab")
    often("b", IDLE_CALLS + 1)
    often("c", 3)
    assert list(cache.graphs) == ["b", "c"]
    often("a", 3)  # learnt again: recorded again, and what is in use is left alone
    assert list(cache.graphs) == ["b", "c", "a"]
    often("a", IDLE_CALLS - 1)
    assert list(cache.graphs) == ["b", "c", "a"]
    often("a", 1)  # no other is recorded: the memory goes back all the same
    assert list(cache.graphs) == ["a"]
