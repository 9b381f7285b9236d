"""A learner as a file: it goes on bit for bit, and what does not fit is refused before anything changes."""

import errno
import hashlib
import os

import pytest
import torch
from safetensors import safe_open
from torch import nn

import samc
from samc.errors import ConfigError, DataError, OutputError
from samc.learners import LEARNERS
from samc.state import pack
from toys import coloured_squares

SHAPE = (3, 12, 12)
PAPER = {"preset": "paper:split-cifar100", "autoencoder_steps": 2}
SHORT = {"encoder_steps": 2}
METHODS = [
    *((name, SHORT if name == "eec" else {}) for name in LEARNERS),
    ("samc", PAPER),
    ("samc", {"memory_bytes": "3073"}),
    ("er", {"average": 0.9, "distil": 1.0, "augment": "flip", "replay_current": True, "codec": "jpeg:50"}),
]


def make(name, given, **more):
    return LEARNERS[name](6, SHAPE, **{"seed": 1, "lr": 0.01, **given, **more})


def steps(stream):
    """Every batch of a stream in order, and its task where the batch is its last one."""
    for task in stream:
        batches = list(task.batches(5))
        for place, (x, y) in enumerate(batches, start=1):
            yield x, y, task.id, task if place == len(batches) else None


def learn(learner, stream, first=0, stop=99):
    for x, y, number, ended in list(steps(stream))[first:stop]:
        learner.observe(x, y, number)
        if ended:
            learner.end_task(ended)


def same_state(one, other):
    (structure, tensors), (structure_, tensors_) = pack(one.state_dict()), pack(other.state_dict())
    alike = structure == structure_ and tensors.keys() == tensors_.keys()
    return alike and all(torch.equal(value, tensors_[name]) for name, value in tensors.items())


@pytest.mark.slow
@pytest.mark.parametrize("stop", [5, 8])
@pytest.mark.parametrize(("name", "given"), METHODS)
def test_a_learner_from_a_file_goes_on_as_if_it_had_never_stopped(name, given, stop, tmp_path):
    """In mid-task and at a task's end; every method."""
    stream = coloured_squares(tasks=3, per_class=10)
    whole, half = (make(name, given) for _ in range(2))
    learn(whole, stream)
    learn(half, stream, stop=stop)
    path = half.save(tmp_path / "learner")
    resumed = samc.load(path)
    assert type(resumed) is type(half)
    assert resumed.settings == half.settings
    assert same_state(resumed, half)
    learn(resumed, stream, first=stop)
    assert same_state(resumed, whole)
    assert resumed.memory_report() == whole.memory_report()
    for task in stream:
        assert torch.equal(resumed.predict(task.test_x, task.id), whole.predict(task.test_x, task.id))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "given"), METHODS)
def test_a_file_is_hardly_larger_than_its_tensors(name, given, tmp_path):
    subject = make(name, given)
    learn(subject, coloured_squares(tasks=2, per_class=10))
    path = subject.save(tmp_path / "learner")
    _, tensors = pack(subject.state_dict())
    assert path.stat().st_size <= 1.1 * sum(tensor.nbytes for tensor in tensors.values())
    with safe_open(path, "pt") as file:  # anybody can look into it
        assert any("model.backbone" in name for name in file.keys())  # noqa: SIM118


class Own(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layer = nn.Conv2d(3, width, 3)

    def forward(self, x):
        return self.layer(x).relu()


def test_a_network_of_ones_own_is_given_again(tmp_path):
    stream = coloured_squares(tasks=2, per_class=5)
    subject = samc.ER(image_shape=SHAPE, model=Own(), mean=0.5, std=0.25)
    learn(subject, stream)
    path = subject.save(tmp_path / "learner")
    with pytest.raises(ConfigError, match=r"has a network of your own, .*:Own; make it and give it: samc.load\(..., m"):
        samc.load(path)
    with pytest.raises(ConfigError, match=r"another network: backbone.layer.weight 4x3x3x3 there, 8x3x3x3 here"):
        samc.load(path, model=Own(8))
    again = samc.load(path, model=Own())
    assert same_state(again, subject)
    assert (again.mean, again.std) == (subject.mean, subject.std)
    plain = samc.ER(6, SHAPE).save(tmp_path / "plain")
    with pytest.raises(ConfigError, match=r"has the network reduced-resnet18, which is made from its name; leave mod"):
        samc.load(plain, model=Own())


def test_no_file_brings_code_about(tmp_path, monkeypatch):
    """A factory's name in a stranger's file is not followed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strangers_nets.py").write_text("from torch import nn\ndef small():\n    return nn.Conv2d(3, 4, 3)\n")
    subject = samc.ER(6, SHAPE, backbone="strangers_nets:small")
    path = subject.save(tmp_path / "learner")
    with pytest.raises(ConfigError, match="has a network of your own, strangers_nets:small"):
        samc.load(path)
    again = samc.load(path, model=nn.Conv2d(3, 4, 3))
    assert again.settings == subject.settings
    assert again.save(tmp_path / "again").read_bytes() == path.read_bytes()


def test_files_that_it_began_with_are_not_needed_again(tmp_path):
    from safetensors.torch import save_file

    from samc.models import ReducedResNet18

    save_file(ReducedResNet18(3).state_dict(), tmp_path / "weights.safetensors")
    subject = samc.ER(6, SHAPE, weights=str(tmp_path / "weights.safetensors"))
    path = subject.save(tmp_path / "learner")
    (tmp_path / "weights.safetensors").unlink()
    assert same_state(samc.load(path), subject)
    assert samc.load(path).settings.weights == subject.settings.weights


def test_a_method_that_is_not_in_the_list_is_named(tmp_path):
    class Mine(samc.ER):
        """ER by another name."""

    path = Mine(6, SHAPE).save(tmp_path / "learner")
    with pytest.raises(ConfigError, match=r"is a learner of Mine, which is no method of samc.LEARNERS; add it"):
        samc.load(path)


OTHERS = [
    ("samc", {}, "er", {}, r"the state is of SAMC, this learner is ER; load its own"),
    ("er", {}, "mer", {}, r"the state is of ER, this learner is MER"),
    ("samc", {"codec": "coo"}, "samc", {"codec": "jpeg:50"}, r"codec: coo in the state, jpeg:50 here"),
    ("er", {"buffer_size": 5}, "er", {}, r"memory: 2,165 bytes per task in the state, 4,330 bytes per task here"),
    ("er", {"accounting": "values"}, "er", {}, r"accounting: values in the state, bytes here"),
    ("er", {"keeps": "newest"}, "er", {}, r"what is kept: the newest in the state, a sample here"),
    ("eec", SHORT | {"buffer_size": 20}, "eec", SHORT, r"memory: 8,660 bytes per task in the state, 4,330 bytes per"),
    ("er", {"mean": 0.5, "std": 0.5}, "er", {}, r"normalisation: .*in the state, None here"),
    ("samc", PAPER, "samc", PAPER | {"completion": "telea"}, r"autoencoder: one that paints the .* in the state, none"),
    ("finetune", {"backbone": "mlp"}, "finetune", {}, r"the state is of another network: backbone"),
]


@pytest.mark.parametrize(("theirs", "given", "mine", "own", "message"), OTHERS)
def test_a_state_that_does_not_fit_leaves_the_learner_as_it_was(theirs, given, mine, own, message):
    other, subject, untouched = make(theirs, given), make(mine, own), make(mine, own)
    stream = coloured_squares(tasks=2, per_class=5)
    learn(other, stream)
    for each in (subject, untouched):
        learn(each, stream, stop=3)
    with pytest.raises(ConfigError, match=message):
        subject.load_state_dict(other.state_dict())
    assert same_state(subject, untouched)
    learn(subject, stream, first=3)
    learn(untouched, stream, first=3)
    assert same_state(subject, untouched)


def test_images_and_classes_must_be_the_same_too():
    state = samc.ER(6, SHAPE).state_dict()
    with pytest.raises(ConfigError, match="images: 3x12x12 in the state, 3x16x16 here"):
        samc.ER(6, (3, 16, 16)).load_state_dict(state)
    with pytest.raises(ConfigError, match="the state has 6 classes, this learner 8"):
        samc.ER(8, SHAPE).load_state_dict(state)
    with pytest.raises(ConfigError, match="bytes of a label: 1 in the state, 2 here"):
        samc.ER(None, SHAPE).load_state_dict(state)
    with pytest.raises(ConfigError, match="it does not say what it is of, as states of earlier versions"):
        samc.ER(6, SHAPE).load_state_dict({name: value for name, value in state.items() if name != "terms"})
    with pytest.raises(ConfigError, match="the state has no random, memory; it is not all of a learner's"):
        samc.ER(6, SHAPE).load_state_dict({k: v for k, v in state.items() if k not in ("memory", "random")})


def test_the_step_size_may_change_as_one_goes_on():
    subject = samc.ER(6, SHAPE, lr=0.01)
    subject.load_state_dict(samc.ER(6, SHAPE).state_dict())
    assert subject.settings.lr == 0.01


def test_a_damaged_file_and_one_of_another_format_are_one_line(tmp_path):
    path = samc.Finetune(6, SHAPE).save(tmp_path / "learner")
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :])
    with pytest.raises(DataError, match=r"is damaged .its content does not match its checksum.; take another copy"):
        samc.load(path)
    changed = content.replace(rb"\"format\":1", rb"\"format\":2")
    place = changed.index(rb"\"sha256\":\"") + 13
    zeroed = changed[:place] + b"0" * 64 + changed[place + 64 :]
    path.write_bytes(zeroed.replace(b"0" * 64, hashlib.sha256(zeroed).hexdigest().encode(), 1))
    with pytest.raises(DataError, match="has format 2, written by samc"):
        samc.load(path)


def test_an_earlier_file_is_replaced_only_if_asked_and_never_by_half_of_one(tmp_path, monkeypatch):
    first = samc.Finetune(6, SHAPE)
    path = first.save(tmp_path / "learner")
    with pytest.raises(OutputError, match="is there already; choose another name, or say replace=True"):
        first.save(path)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left on device; free some space"):
        samc.Finetune(6, SHAPE, seed=2).save(path, replace=True)
    assert [each.name for each in tmp_path.iterdir()] == ["learner"]
    assert same_state(samc.load(path), first)
