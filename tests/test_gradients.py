"""Flat gradients against backward(), the engine against a plain loop, kernels in Triton's interpreter."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from samc.gradients import Batch, Engine, descend, gradient
from samc.gradients.cores import HELP, in_parallel
from samc.gradients.engine import CHUNK_PIXELS, chunks
from samc.gradients.graph import MOST_CONSTANTS, Constants, Recorder
from torch.nn import functional as F

from samc.errors import ConfigError
from samc.learners.gem import GEM
from samc.learners.samc import SAMC
from samc.models import ReducedResNet18
from samc.projection import project
from toys import Replaying, needs_triton


def model():
    net = ReducedResNet18(6, seed=3)
    for task, classes in enumerate(((0, 1), (2, 3), (4, 5))):
        net.assign(task, classes)
    return net


def batch(task, count, seed, side=10):
    random = torch.Generator().manual_seed(seed)
    return Batch(torch.rand(count, 3, side, side, generator=random), torch.arange(count) % 2 + 2 * task, task)


def by_backward(net, x, y, columns):
    """Mean cross-entropy where each row sees its own two columns of the full output."""
    net = copy.deepcopy(net).train()
    logits = net.linear(net.features(x).mean((2, 3)))
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


def test_after_fifty_steps_with_five_past_tasks_parameters_are_those_of_the_loop():
    shape, classes = (3, 12, 12), [(2 * t, 2 * t + 1) for t in range(6)]
    ours = GEM(12, shape, task_classes=classes, lr=0.05)
    for task in range(5):
        ours.store.add(task, *remembered(task, shape))
    theirs = copy.deepcopy(ours.model)
    for step in range(50):
        random = torch.Generator().manual_seed(step)
        x, y = torch.randint(0, 256, (10, *shape), generator=random, dtype=torch.uint8), torch.arange(10) % 2 + 10
        ours.observe(x, y, 5)
        rows = by_loop(theirs, [*([memory] for memory in ours.past()), [Batch(x.float() / 255, y, 5)]])
        descend(theirs, project(rows[-1], rows[:-1], 0.5), 0.05)
    found, expected = (torch.cat([p.detach().flatten() for p in net.parameters()]) for net in (ours.model, theirs))
    assert float((found - expected).norm() / expected.norm()) < 1e-3


def remembered(task, shape):
    from samc.memory import whole

    random = torch.Generator().manual_seed(task + 500)
    x = torch.randint(0, 256, (10, *shape), generator=random, dtype=torch.uint8)
    return x.numpy(), whole(10, *shape[1:]), (torch.arange(10) % 2 + 2 * task).numpy()


def test_bfloat16_points_the_same_way_and_the_batch_stays_exact():
    net, memories, now = model(), [[batch(0, 8, 1)], [batch(1, 8, 2)]], batch(2, 8, 3)
    exact = Engine(copy.deepcopy(net)).gradients(memories, now)[0].clone()
    rough = Engine(net, "bf16").gradients(memories, now)[0]
    assert torch.equal(rough[-1], exact[-1])
    assert (F.cosine_similarity(rough[:-1], exact[:-1]) > 0.9).all()
    assert not torch.equal(rough[:-1], exact[:-1])
    with pytest.raises(ConfigError, match="unknown reference precision 'fp8'"):
        Engine(net, "fp8")


def test_a_single_value_a_channel_is_still_learnt_from():
    net, memories, now = model(), [[batch(0, 1, 1, side=8)], [batch(1, 3, 2, side=8)]], batch(2, 1, 3, side=8)
    after = copy.deepcopy(net)
    expected = by_loop(after, [*memories, [now]])
    torch.testing.assert_close(Engine(net).gradients(memories, now)[0], expected)


@pytest.fixture
def narrow(monkeypatch):
    """A network of few channels and sums of few parts, since Triton's interpreter is slow; the way is the same."""
    monkeypatch.setattr("samc.models.resnet.WIDTHS", (4, 8, 8, 12))
    monkeypatch.setattr("samc.gradients.normalisation.SPLITS", 2)


@needs_triton
def test_a_folded_batch_has_the_rows_of_a_plain_loop(narrow):
    """The kernels that a GPU runs, in Triton's interpreter: an odd size, groups of different sizes."""
    from samc.gradients.fold import Folding

    net = model().to(memory_format=torch.channels_last)
    groups = [[batch(0, 4, 1, 13)], [batch(1, 2, 2, 13)], [batch(0, 1, 7, 13), batch(2, 2, 3, 13)]]
    after = copy.deepcopy(net)
    expected = by_loop(after, groups)
    engine = Engine(net)
    engine.folding = Folding(net, Constants())
    parts = [part for group in groups for part in group]
    rows, losses = engine.folded((4, 2, 3), 0, *engine.joined(parts))
    assert largest_gap(rows, expected) < 1e-4
    torch.testing.assert_close(losses, torch.stack([gradient(copy.deepcopy(net), group)[1] for group in groups]))
    for a, b in zip(net.buffers(), after.buffers(), strict=True):
        torch.testing.assert_close(a, b)


@needs_triton
def test_looking_sees_what_the_network_in_eval_mode_sees(narrow):
    """Convolution, batch norm, shortcut and ReLU in one kernel, on running statistics that have moved."""
    from samc.gradients.fold import Folding, Steady

    net = model().to(memory_format=torch.channels_last)
    gradient(net, [batch(0, 4, 1, 13)])
    net.eval()
    x = batch(1, 3, 2, 13).x
    with torch.no_grad():
        found = net.features(x, Steady(Folding(net, Constants()), x))
        torch.testing.assert_close(found, net.features(x), atol=1e-5, rtol=1e-4)


@needs_triton
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_every_kernel_that_is_started_was_compiled_beforehand(monkeypatch, narrow, precision):
    """Else it would be compiled in the middle of learning, one at a time; sizes of batches are no matter."""
    from samc.gradients import convolution, normalisation
    from samc.gradients.fold import PRECISIONS, Folding, Steady
    from samc.gradients.warmup import warm_up

    net = model().to(memory_format=torch.channels_last)
    folding, x = Folding(net, Constants()), batch(0, 7, 1, 13).x
    varying = {"pixels", "images", "splits", "area", "beside", "has_beside", "rectify", "epsilon"}

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

        monkeypatch.setattr(convolution, "start_kernel", note)
        monkeypatch.setattr(normalisation, "start_kernel", note)
        work()
        return found

    def learn():
        engine = Engine(net)
        rows = torch.empty(2, engine.length)
        folding(rows, (3, 4), precision, x, torch.zeros(7, dtype=torch.int64), torch.ones(7, net.num_classes) > 0)

    def look():
        net.features(x, Steady(folding, x))

    learning, looks = kernels(learn), kernels(look)
    assert len(learning) > 20
    assert len(looks) > 10
    assert learning <= kernels(lambda: warm_up(folding, x.shape[1:], PRECISIONS[precision], torch.device("cpu")))
    assert looks <= kernels(lambda: warm_up(folding, x.shape[1:], None, torch.device("cpu")))


@needs_triton
def test_threads_that_only_compile_start_nothing():
    from samc.gradients import starting

    class Kernel:
        def __init__(self):
            self.calls = []

        def warmup(self, *arguments, grid, **options):
            self.calls.append(("compiled", grid, arguments, options))

        def __getitem__(self, grid):
            return lambda *arguments, **options: self.calls.append(("started", grid, arguments, options))

    kernel = Kernel()
    with ThreadPoolExecutor(1, initializer=starting.only_compile) as pool:
        pool.submit(starting.start_kernel, kernel, (2,), 1, warps=4).result()
    starting.start_kernel(kernel, (2,), 1, warps=4)
    assert kernel.calls == [("compiled", (2,), (1,), {"warps": 4}), ("started", (2,), (1,), {"warps": 4})]


@needs_triton
def test_a_folded_batch_in_chunks(monkeypatch, narrow):
    from samc.gradients import engine as module
    from samc.gradients.fold import Folding

    net, groups = model(), [[batch(t, 4, t)] for t in range(3)]
    engine = Engine(net.to(memory_format=torch.channels_last))
    engine.folding = Folding(net, Constants())
    monkeypatch.setattr(module, "CHUNK_PIXELS", 4 * 100)
    joined = engine.joined([part for group in groups for part in group])
    expected = by_loop(copy.deepcopy(net), groups)
    rows, _ = engine.folded((4, 4, 4), 1, *joined)
    assert largest_gap(rows, expected) < 1e-4


@needs_triton
@pytest.mark.parametrize(
    ("cin", "cout", "side", "stride"), [(20, 40, 3, 2), (40, 80, 1, 2), (80, 80, 3, 1), (3, 20, 3, 1)]
)
def test_convolutions_as_torch_has_them(cin, cout, side, stride):
    from samc.gradients import convolution

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


@given(st.lists(st.integers(1, 900), min_size=1, max_size=30), st.sampled_from(["float32", "bf16"]), st.integers(0, 1))
@settings(max_examples=200)
def test_chunks_cover_all_groups_in_order_and_fit(sizes, precision, exact):
    pixels = 128 * 128
    found = list(chunks(tuple(sizes), pixels, precision, exact))
    assert [number for part, _ in found for number in range(part.start, part.stop)] == list(range(len(sizes)))
    for part, kind in found:
        inside = sizes[part]
        assert len(inside) == 1 or sum(inside) * pixels <= CHUNK_PIXELS
        rough = range(len(sizes) - exact) if precision == "bf16" else ()
        assert kind == ("bf16" if part.start in rough else "float32")
        assert len({number in rough for number in range(part.start, part.stop)}) == 1


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
        HELP.on(work)
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
    recorder = Recorder(torch.device("cpu"), Constants())
    (found,) = recorder("twice", lambda x: (2 * x,), torch.ones(3))
    assert found.tolist() == [2, 2, 2]
    assert not recorder.recordings


def test_a_tensor_that_was_written_to_since_is_read_again():
    recorder, x, y = Replaying(), torch.ones(2), torch.ones(2)
    for number in range(6):
        x.fill_(number)
        (found,) = recorder("sum", lambda a, b: (a + b,), x, y)
        assert found.tolist() == [number + 1] * 2
    assert [tape.replays for tape in recorder.tapes] == [3]


def test_a_state_that_is_loaded_ends_what_was_recorded():
    learner = GEM(4, (3, 12, 12), task_classes=[(0, 1), (2, 3)])
    learner.engine.recorder.recordings["old"] = None
    learner.load_state_dict(learner.state_dict())
    assert learner.engine.recorder.recordings == {}


@needs_triton
def test_a_network_that_has_diverged_shows_it(narrow):
    """The kernels' ReLU lets NaN pass, as torch's does."""
    from samc.gradients.fold import Folding, Steady

    net = model().to(memory_format=torch.channels_last)
    with torch.no_grad():
        net.stem[0].weight.fill_(torch.nan)
    engine, now = Engine(net), batch(0, 3, 1, 9)
    engine.folding = Folding(net, Constants())
    assert engine.folded((3,), 0, *engine.joined([now]))[1].isnan().all()
    net.eval()
    with torch.no_grad():
        assert net.features(now.x, Steady(engine.folding, now.x)).isnan().all()


@pytest.mark.parametrize("kind", [GEM, SAMC])
def test_sampled_constraints_look_at_so_many_tasks(kind):
    shape, classes = (3, 12, 12), [(2 * t, 2 * t + 1) for t in range(6)]
    each = kind(12, shape, task_classes=classes, constraints="sampled:2", codec="raw")
    for task in range(5):
        each.store.add(task, *remembered(task, shape))
    each.start(5)
    drawn = [[memory.task for memory in each.constraining(each.past())] for _ in range(30)]
    assert all(len(set(tasks)) == 2 and tasks == sorted(tasks) for tasks in drawn)
    assert {task for tasks in drawn for task in tasks} == set(range(5))
    few = kind(12, shape, task_classes=classes, constraints="sampled:9", codec="raw")
    assert few.constraining(each.past()) is each.past()


@pytest.mark.parametrize("text", ["some", "sampled", "sampled:0", "sampled:-1", "sampled:x", ""])
def test_bad_constraints_are_refused(text):
    with pytest.raises(ConfigError, match="constraints are all, mean, or sampled:K with K from 1; got"):
        GEM(4, (3, 12, 12), constraints=text)


def test_the_mean_constraint_is_a_gems():
    from samc.learners.agem import AGEM

    shape, classes = (3, 12, 12), [(2 * t, 2 * t + 1) for t in range(4)]
    gem, agem = (
        kind(8, shape, task_classes=classes, **more) for kind, more in ((GEM, {"constraints": "mean"}), (AGEM, {}))
    )
    for each in (gem, agem):
        for task in range(3):
            each.store.add(task, *remembered(task, shape))
        for step in range(3):
            random = torch.Generator().manual_seed(step)
            each.observe(torch.rand(6, *shape, generator=random), torch.arange(6) % 2 + 6, 3)
    assert all(torch.equal(a, b) for a, b in zip(gem.model.parameters(), agem.model.parameters(), strict=True))


def test_descend_is_sgd():
    net, other = model(), model()
    flat = torch.randn(sum(p.numel() for p in net.parameters()), generator=torch.Generator().manual_seed(0))
    start = 0
    for p in other.parameters():
        p.grad = flat[start : start + p.numel()].view_as(p).clone()
        start += p.numel()
    torch.optim.SGD(other.parameters(), lr=0.3).step()
    descend(net, flat, 0.3)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), other.parameters(), strict=True))
