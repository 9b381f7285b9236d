"""DER++: its loss and step by hand and by an independent loop; logits kept with images, counted, saved and refused."""

import copy
import math

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn
from torch.nn import functional as F

import samc
from memory_makers import SPECS, filled, forged, smooth_images
from samc.engine.plain import masked_gradient
from samc.errors import ConfigError, DataError
from samc.learners import LEARNERS
from samc.memory import Budget, EpisodicMemory, full_selection, parse_codec
from samc.memory.audit import audit
from samc.memory.container import container_bytes
from samc.memory.file import load
from test_memory_file import content, mutated
from toys import Replaying, coloured_squares, losses_of, random_batch

SHAPE = (3, 12, 12)
TASKS = ((0, 1), (2, 3), (4, 5))
ALL_PARTS = {"average": 0.9, "distil": 0.5, "augment": "crop+flip", "codec": "jpeg:10"}


def learner(**settings):
    return samc.DER(**{"num_classes": 6, "image_shape": SHAPE, "task_classes": TASKS, "lr": 0.05, **settings})


def parameters(subject):
    return torch.cat([p.detach().flatten() for p in subject.model.parameters()])


def logits_of(image):
    return np.frombuffer(image.note, "<f2")


def noted(spec="raw", count=4, **more):
    """A memory of two tasks whose notes differ in length; and the images."""
    memory = EpisodicMemory(parse_codec(spec, (3, 16, 16), (2, 2)), 20, Budget(100_000), note="logits", **more)
    images = smooth_images(2 * count, (3, 16, 16), 0)
    for task in range(2):
        notes = [bytes(range(task, task + 2 * number)) for number in range(count)]
        some = images[task * count :][:count]
        memory.add(task, some, full_selection(count, 16, 16), np.arange(count), notes)
    return memory, images


# The method


def test_loss_and_steps_of_two_pixels_by_hand():
    """Logits W·x + b of images with two pixels; W is the identity, and the first image is remembered."""
    rate, alpha, beta = 0.5, 3.0, 0.7
    subject = samc.DER(2, (1, 1, 2), model=nn.Flatten(), lr=rate, alpha=alpha, beta=beta, task_classes=[(0, 1)])
    linear = subject.model.heads.linear
    linear.weight.data, linear.bias.data = torch.eye(2), torch.zeros(2)
    first, second = (torch.tensor(pixels, dtype=torch.uint8).view(1, 1, 1, 2) for pixels in ((255, 0), (0, 255)))

    stats = subject.observe(first, [0], 0)
    wrong = 1 / (1 + math.e)  # softmax of (1, 0) gives class 1
    assert float(stats.loss) == pytest.approx(-math.log(1 - wrong), rel=1e-6)
    assert logits_of(subject.memory.by_task[0].images[0]).tolist() == [1.0, 0.0]  # of before the step

    stats = subject.observe(second, [1], 0)
    # weights of the first pixel and biases have moved by ±rate·wrong: its logits are now (1 + moved, −moved)
    moved = 2 * rate * wrong
    batch = math.log(1 + math.exp(moved - 1))  # of logits (rate·wrong, 1 − rate·wrong), the second is right
    replayed = math.log(1 + math.exp(-1 - 2 * moved))
    assert float(stats.loss) == pytest.approx(batch + alpha * moved**2 + beta * replayed, rel=1e-6)
    # the weight of the first pixel feels the remembered image alone, that of the second the batch alone
    pull = alpha * moved - beta * (1 - math.exp(-replayed))
    assert linear.weight[0, 0].item() == pytest.approx(1 + rate * wrong - rate * pull, rel=1e-6)
    assert linear.weight[0, 1].item() == pytest.approx(-rate * (1 - math.exp(-batch)), rel=1e-6)
    assert logits_of(subject.memory.by_task[0].images[1]) == pytest.approx([rate * wrong, 1 - rate * wrong], rel=1e-3)


def test_a_step_equals_autograd_over_two_draws_that_are_written_down():
    subject = learner(alpha=0.3, beta=0.8, replay_size=5)
    for task in range(2):
        for step in range(3):
            subject.observe(*random_batch(8, SHAPE, TASKS[task], seed=10 * task + step), task)
    x, y = random_batch(8, SHAPE, TASKS[1], seed=99)
    net, memory = copy.deepcopy(subject.model), subject.memory
    random = torch.Generator()
    random.set_state(subject.random.get_state())
    # task 0 is past, task 1 is the current one and replayed too
    remembered = [(task, image) for task in range(2) for image in memory.by_task[task].images]
    draws = [torch.randperm(len(remembered), generator=random)[:5].sort().values.tolist() for _ in range(2)]
    assert draws[0] != draws[1]
    assert {remembered[row][0] for rows in draws for row in rows} == {0, 1}

    def pixels(rows):
        blobs = [remembered[row][1].blob for row in rows]
        return torch.from_numpy(memory.codec.decode(blobs)[0]).float() / 255

    images = torch.cat([x.float() / 255, *map(pixels, draws)]).contiguous(memory_format=torch.channels_last)
    logits = net.backbone(images).mean((2, 3)) @ net.heads.linear.weight.T + net.heads.linear.bias
    loss = F.cross_entropy(logits[:8, 2:4], y - 2)
    for place, row in enumerate(draws[0]):
        task, image = remembered[row]
        gaps = logits[8 + place, 2 * task : 2 * task + 2] - torch.from_numpy(logits_of(image).astype(np.float32))
        loss = loss + 0.3 * gaps.square().mean() / 5
    for place, row in enumerate(draws[1]):
        task, image = remembered[row]
        mine = logits[13 + place, 2 * task : 2 * task + 2]
        loss = loss + 0.8 * F.cross_entropy(mine, torch.tensor(image.label[0] - 2 * task)) / 5
    grads = torch.autograd.grad(loss, [*net.parameters()])
    expected = parameters(subject) - 0.05 * torch.cat([grad.flatten() for grad in grads])
    stats = subject.observe(x, y, 1)
    assert float(stats.loss) == pytest.approx(float(loss.detach()), rel=1e-5)
    torch.testing.assert_close(parameters(subject), expected, atol=1e-6, rtol=1e-5)


def test_stored_logits_are_those_before_the_update_of_the_tasks_own_classes():
    subject = learner(buffer_size=20)
    x, y = random_batch(6, SHAPE, TASKS[2])
    before = copy.deepcopy(subject.model).train()
    subject.observe(x, y, 2)
    asked = before(x.contiguous(memory_format=torch.channels_last).float() / 255, 2).detach().numpy()
    stored = np.stack([logits_of(image) for image in subject.memory.by_task[2].images])
    assert stored.shape == (6, 2)
    np.testing.assert_allclose(stored, asked, atol=2e-3)
    after = subject.model(x.float() / 255, 2).detach().numpy()
    assert np.abs(after - stored).max() > 0.02


def test_without_weights_it_is_finetuning_on_batches_that_share_their_statistics():
    """α = β = 0 and nothing remembered yet: bit for bit the plain step among all classes."""
    subject, plain = learner(alpha=0.0, beta=0.0), samc.Finetune(6, SHAPE, task_classes=TASKS, lr=0.05)
    among_all, (x, y) = copy.deepcopy(plain), random_batch(6, SHAPE)
    for each in (subject, plain):
        each.observe(x, y, 0)
    images, labels, masks = among_all.model.joined([among_all.as_batch(x, y, 0)])
    g, _ = masked_gradient(among_all.model, images, labels, masks, torch.full((6,), 1 / 6))
    among_all.step(g)
    assert torch.equal(parameters(subject), parameters(among_all))
    torch.testing.assert_close(parameters(subject), parameters(plain), rtol=1e-5, atol=1e-7)


def test_logits_of_classes_that_nobody_knows_are_refused():
    subject, other = learner(), learner()
    subject.observe(*random_batch(4, SHAPE), 0)
    for order in ({}, {0: [1]}):
        with pytest.raises(ConfigError, match="the state has logits of task 0 that are of none of its classes"):
            other.load_state_dict(subject.state_dict() | {"order": order})
    assert not other.memory.tasks  # as it was
    other.load_state_dict(subject.state_dict())
    assert other.memory.tasks == subject.memory.tasks == [0]


def test_heads_that_grow_compare_the_classes_that_were_there():
    subject = samc.DER(None, SHAPE, lr=0.05, alpha=0.6, buffer_size=50)
    for step, classes in enumerate([(2, 3), (2, 3), (0, 2), (5,)]):
        x, _ = random_batch(4, SHAPE, seed=step)
        subject.observe(x, torch.tensor(classes)[torch.arange(4) % len(classes)], 0)
    assert subject.model.heads.task_classes[0] == (0, 2, 3, 5)
    assert subject.order[0] == [2, 3, 0, 5]
    images = subject.memory.by_task[0].images
    assert [len(logits_of(image)) for image in images] == [2] * 8 + [3] * 4 + [4] * 4
    batch = subject.as_batch(*random_batch(4, SHAPE, (2, 3)), 0)
    _, wanted, weights = subject.targets([0, 8, 12], batch, [])
    assert wanted.shape == weights.shape == (3, 6)
    for row, image, known in zip(range(3), (0, 8, 12), ([2, 3], [2, 3, 0], [2, 3, 0, 5]), strict=True):
        assert wanted[row, known].tolist() == logits_of(images[image]).astype(np.float32).tolist()
        assert weights[row].nonzero()[:, 0].tolist() == sorted(known)
        torch.testing.assert_close(weights[row].sum(), torch.tensor(0.6 / 3))
    subject.observe(*random_batch(4, SHAPE, (7, 8)), 1)  # and as memories of a past task
    assert subject.noted_at(8) == (0, images[8].note)


@pytest.mark.parametrize("settings", [{}, ALL_PARTS, {"memory_bytes": "4KB"}, {"accounting": "values"}])
def test_the_budget_holds_with_logits_counted(settings):
    subject = learner(buffer_size=4, **settings)
    for task in range(3):
        for step in range(6):
            subject.observe(*random_batch(5, SHAPE, TASKS[task], seed=10 * task + step), task)
            memory = subject.memory
            assert all(held.cost <= memory.budget_bytes for held in memory.by_task.values())
            if memory.accounting == "bytes":
                assert all(held.cost == held.nbytes for held in memory.by_task.values())
    report = subject.memory_report()
    count = sum(report["images_per_task"])
    assert report["bytes_by_part"]["logits"] == 2 * 2 * count > 0
    assert sum(memory.nbytes_by_part.values()) == memory.nbytes == report["memory_bytes"]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, ALL_PARTS])
def test_a_state_saved_in_the_middle_of_a_task_goes_on_to_the_same_bits(settings, tmp_path):
    """With heads that grow: the order of the classes is part of the state."""
    steps = [(0, (1, 2)), (0, (0, 1)), (1, (5, 6)), (1, (4,)), (1, (5, 4)), (2, (3, 7)), (2, (3, 7))]

    def learn(subject, some):
        for number, (task, classes) in some:
            subject.observe(*random_batch(5, SHAPE, classes, seed=number), task)

    made = [samc.DER(None, SHAPE, lr=0.05, buffer_size=4, **settings) for _ in range(3)]
    whole, half, resumed = made
    numbered = list(enumerate(steps))
    learn(whole, numbered)
    learn(half, numbered[:4])
    torch.save(half.state_dict(), tmp_path / "state.pt")
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    learn(resumed, numbered[4:])
    assert torch.equal(parameters(whole), parameters(resumed))
    assert whole.memory.state_dict() == resumed.memory.state_dict()
    assert whole.order == resumed.order


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("der", {"augment": "flip"}),
        ("der", {"replay_current": False}),
        ("samc", {"keeps": "sample", "codec": "coo", "threshold": 0.0, "accounting": "values"}),
    ],
)
def test_images_that_arrive_a_step_late_as_on_a_gpu_change_nothing_that_a_state_keeps(name, settings):
    late, resumed = (LEARNERS[name](6, SHAPE, lr=0.05, buffer_size=2, **settings) for _ in range(2))
    prompt = LEARNERS[name](6, SHAPE, lr=0.05, buffer_size=2, **settings)
    late.engine.deferred.lag = resumed.engine.deferred.lag = 1
    for step in range(8):
        if step == 5:
            resumed.load_state_dict(copy.deepcopy(late.state_dict()))
        for subject in (prompt, late, *([resumed] if step >= 5 else [])):
            subject.observe(*random_batch(5, SHAPE, TASKS[step // 4], seed=step), step // 4)
    assert late.memory.state_dict() == resumed.memory.state_dict()
    assert torch.equal(parameters(late), parameters(resumed))
    if name == "der":
        assert torch.equal(parameters(prompt), parameters(late))


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"average": 0.5, "distil": 0.5, "replay_size": 3}])
def test_a_step_that_was_recorded_is_the_same_step(settings):
    plain, recorded = (samc.DER(6, SHAPE, lr=0.02, buffer_size=3, **settings) for _ in range(2))
    recorded.engine.graphs = recorder = Replaying()
    assert torch.equal(losses_of(plain, first_steps=8), losses_of(recorded, first_steps=8))
    assert torch.equal(parameters(plain), parameters(recorded))
    assert plain.memory.state_dict() == recorded.memory.state_dict()
    assert sum(tape.replays for tape in recorder.tapes) > 30
    # what waits for the device or sends something there; on a GPU that must repeat itself, a scattered sum does too
    forbidden = {"aten::_local_scalar_dense", "aten::lift_fresh", "aten::scatter_add", "aten::scatter_add_"}
    assert not forbidden & {kernel._schema.name for tape in recorder.tapes for kernel, *_ in tape.kernels}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"average": 0.9, "distil": 0.5, "codec": "jpeg:60"}])
def test_a_toy_is_learnt_and_kept(settings):
    stream = coloured_squares(per_class=150)
    record = samc.run(stream, samc.DER(6, SHAPE, lr=0.03, **settings))
    assert np.mean(record.accuracy_matrix[-1]) >= 0.9


def test_settings():
    defaults = samc.DER(6, SHAPE).settings
    assert (defaults.alpha, defaults.beta, defaults.replay_current, defaults.keeps) == (0.1, 0.5, True, "sample")
    with pytest.raises(ConfigError, match="--replay-weight does nothing beside --beta, which weighs the replay"):
        learner(replay_weight=1.0)
    with pytest.raises(ConfigError, match=r"alpha is at least 0, got -1.0; its authors use 0.1 to 1"):
        learner(alpha=-1.0)


# Notes in a memory and its file


@pytest.mark.parametrize("spec", ["raw", "jpeg:30", "thumb:4"])
@pytest.mark.parametrize("accounting", ["bytes", "values"])
def test_a_memory_with_notes_comes_back_and_its_bytes_are_the_counted_ones(tmp_path, spec, accounting):
    memory, images = noted(spec, accounting=accounting)
    path = memory.save(tmp_path / "memory.samc")
    again = load(path)
    assert again.note == "logits"
    assert again.state_dict() == memory.state_dict()
    assert again.nbytes_by_part == memory.nbytes_by_part
    assert memory.nbytes_by_part["logits"] == 2 * (2 + 4 + 6)
    assert path.stat().st_size == container_bytes(path) + memory.nbytes
    assert sum(tensor.nbytes for tensor in load_file(path).values()) == memory.nbytes
    assert audit(path, images).passed
    other = EpisodicMemory(memory.codec, 20, Budget(100_000), memory.accounting, note="logits")
    other.load_state_dict(memory.state_dict())
    assert other.by_task == memory.by_task


def test_memories_without_notes_are_what_they_were(tmp_path):
    memory, _ = filled("coo")
    assert {len(item) for held in memory.state_dict().values() for item in held["items"]} == {2}
    assert set(load_file(memory.save(tmp_path / "memory.samc"))) == {"blobs", "labels", "sizes"}
    with pytest.raises(DataError, match="this memory keeps nothing besides its images"):
        memory.stored_image(b"x", b"\0", b"note")


def test_a_note_has_a_longest_length():
    memory, _ = noted()
    with pytest.raises(DataError, match="takes at most 65,535 bytes, got 65,536; keep less"):
        memory.stored_image(b"x", b"\0", bytes(65_536))


def test_info_shows_logits_as_a_part_of_their_own(command, tmp_path):
    memory, _ = noted()
    memory.save(tmp_path / "memory.samc")
    code, out, _ = command("memory", "info", tmp_path / "memory.samc")
    assert code == 0
    assert [line.split()[3] for line in out.splitlines() if " logits " in line] == ["24"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: {"notes": t["notes"][:-1]}, "other lengths than it says"),
        (lambda t: {"note_sizes": t["note_sizes"][:-1]}, "other lengths than it says"),
        (lambda t: {"note_sizes": t["note_sizes"] + np.uint16(1)}, "other lengths than it says"),
        (
            lambda t: {"note_sizes": t["note_sizes"].astype(np.uint32)},
            "tensors are not blobs, labels, notes",
        ),
        (lambda t: {"notes": t["notes"].astype(np.uint16)}, "tensors are not blobs, labels, notes"),
        (lambda t: {"notes": None}, "tensors are not blobs, labels, notes"),
    ],
)
def test_notes_that_do_not_fit_are_refused_whatever_their_checksum(tmp_path, change, words):
    path = noted()[0].save(tmp_path / "memory.samc")
    tensors = load_file(path)
    changed = {name: tensor for name, tensor in (tensors | change(tensors)).items() if tensor is not None}
    forged(path, changed)
    with pytest.raises(DataError, match=words):
        load(path)


@pytest.mark.parametrize("name", ["", "Logits", "[bold]", 7, None, ["logits"], "a" * 21])
def test_notes_have_a_plain_name(tmp_path, name):
    path = noted()[0].save(tmp_path / "memory.samc")
    forged(path, notes=name)
    with pytest.raises(DataError, match="what it keeps with its images has no name"):
        load(path)


def test_damaged_notes_and_notes_beyond_the_budget_are_refused(tmp_path):
    memory, _ = noted()
    path = memory.save(tmp_path / "memory.samc")
    raw = bytearray(path.read_bytes())
    place = raw.index(load_file(path)["notes"].tobytes())
    raw[place] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DataError, match="does not match its checksum"):
        load(path)
    path = memory.save(tmp_path / "other.samc")
    forged(path, budget={"total": memory.by_task[1].cost - 1, "per_task": True})
    with pytest.raises(DataError, match="more than its budget allows"):
        load(path)
    forged(path, {name: tensor for name, tensor in load_file(path).items() if "note" not in name})
    with pytest.raises(DataError, match="tensors are not"):
        load(path)


def test_mutants_with_notes_are_refused_or_equal(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "mutant.samc"
    memories = [noted(spec)[0] for spec in ("raw", "jpeg:30")]
    originals = [memory.save(path, replace=True).read_bytes() for memory in memories]
    refused = 0
    for number in range(400):
        path.write_bytes(mutated(originals[number % 2], rng))
        try:
            assert content(load(path)) == content(memories[number % 2])
        except DataError:
            refused += 1
    assert refused > 360


@pytest.mark.parametrize("spec", [spec for spec in SPECS if "cam" in spec or spec == "coo"])
def test_originals_in_notes_are_found(tmp_path, spec):
    memory, images = filled(spec)
    memory.note = "logits"
    for hidden in (False, True):
        note = images[5].tobytes()[:200] if hidden else b"\1\2\3\4"
        for held in memory.by_task.values():
            held.images.extend([memory.stored_image(i.blob, i.label, note) for i in held.images])
            for _ in range(len(held.images) // 2):
                held.images.popleft()
            held.cost = sum(image.cost for image in held.images)
        path = memory.save(tmp_path / f"{hidden}.samc")
        assert audit(path, images).passed != hidden
