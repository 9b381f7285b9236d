"""Weights and learners of strangers: what is huge, or claims more than it holds, is refused before it takes memory."""

import contextlib
import hashlib
import json
import os
import shutil
import time
import zipfile
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import samc
from fuzzing import changed_state
from limits import within
from run_makers import interrupted
from samc.errors import DataError, UserError
from samc.memory.file import FREE_PIXELS
from samc.models import ReducedResNet18
from samc.models.weights import load_weights
from samc.state import KEY
from samc.tensor_files import FREE_HEADER_BYTES, MOST_BYTES
from test_fuzz import resident

SHAPE = (3, 12, 12)
MOST_SECONDS, MOST_MEMORY = 5, 2**28


@contextlib.contextmanager
def soon_and_in_little_memory():
    """Each refusal takes seconds and megabytes, whatever a file claims."""
    with contextlib.suppress(OSError):  # where it may not be reset, the largest so far counts
        Path("/proc/self/clear_refs").write_text("5")
    before, started = resident("VmRSS"), time.perf_counter()
    yield
    assert time.perf_counter() - started < within(MOST_SECONDS)
    assert resident("VmHWM") - before < MOST_MEMORY


def sparse(path, size, content=b""):
    """A file of so many bytes that takes none of them on the disk."""
    path.write_bytes(content)
    os.truncate(path, size)
    return path


def refused(path):
    with soon_and_in_little_memory(), pytest.raises(UserError) as error:
        samc.load(path)
    assert "\n" not in str(error.value)
    return str(error.value)


def opened(how, path, command):
    """Each way in which a user's file is opened: the one line with which it is refused."""
    if how == "python":
        return refused(path)
    np.savez("tiny.npz", x=np.zeros((20, 12, 12, 3), np.uint8), y=np.arange(20) % 2)
    run = ("run", "--dataset", "npz:tiny.npz", "--out", "none")
    given = {
        "predict": ("predict", path, "--task", 0, "none.png"),
        "export": ("export", path, "--torchscript", "none.pt"),
        "weights": (*run, "--model", "er", "--preset", "none", "--weights", path),
        "autoencoder": (*run, "--preset", "paper", "--autoencoder", path),
    }[how]
    with soon_and_in_little_memory():
        code, out, err = command(*given)
    assert (code, out, err.count("\n")) == (2, "", 1)
    return err.removeprefix("samc: ").rstrip("\n")


WAYS = ["python", "predict", "export", "weights", "autoencoder"]


@pytest.mark.parametrize("how", WAYS)
def test_a_file_larger_than_any_is_refused(how, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = sparse(tmp_path / "huge.safetensors", 2**40)
    most = 2**22 if how == "autoencoder" else MOST_BYTES
    assert f"{path} has {2**40:,} bytes, no file of its kind has more than {most:,}; give " in opened(
        how, path, command
    )


@pytest.mark.parametrize("how", WAYS)
def test_a_header_out_of_proportion_is_refused(how, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    header = FREE_HEADER_BYTES + 1
    if how == "autoencoder":  # of which a file has no more bytes in all
        header -= 100
    path = sparse(tmp_path / "odd.safetensors", 8 + header, header.to_bytes(8, "little") + b"[" * 50)
    expected = "is no whole safetensors file" if how == "autoencoder" else f"claims a header of {header:,} bytes in a"
    assert f"{path} {expected}" in opened(how, path, command)


def test_a_pipe_does_not_keep_anybody_waiting(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pipe.safetensors"
    os.mkfifo(path)
    for how in WAYS:
        assert str(path) in opened(how, path, command)


def test_torchs_file_larger_than_any_and_one_that_would_burst(tmp_path):
    network = ReducedResNet18(3)
    path = sparse(tmp_path / "huge.pt", 2**40)
    with pytest.raises(DataError, match="has 1,099,511,627,776 bytes, no file of its kind has more than"):
        load_weights(network, path)
    torch.save({"conv1.weight": torch.zeros(10**6)}, tmp_path / "plain.pt")
    packed = tmp_path / "packed.pt"
    with zipfile.ZipFile(tmp_path / "plain.pt") as plain, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as other:
        for info in plain.infolist():
            other.writestr(info.filename, plain.read(info))
    assert packed.stat().st_size < 10**5
    with pytest.raises(DataError, match=r"is compressed, which torch.save does not do; save it with torch.save again"):
        load_weights(network, packed)


def test_weights_of_the_usual_size_are_read_as_before(tmp_path):
    network = ReducedResNet18(3)
    save_file(network.state_dict(), tmp_path / "net.safetensors")
    torch.save(network.state_dict(), tmp_path / "net.pt")
    for name in ("net.safetensors", "net.pt"):
        other = ReducedResNet18(3)
        assert load_weights(other, tmp_path / name) == ()
        assert all(torch.equal(value, other.state_dict()[key]) for key, value in network.state_dict().items())


# -- a checksum that fits around content that does not


def entry(state, *names):
    """The value at a path of a packed state, where dicts are lists of pairs; and the list that it stands in."""
    for name in names:
        pairs = state.get("dict", state.get("ordered"))
        (pair,) = (pair for pair in pairs if pair[0] == name)
        state = pair[1]
    return pair


def put(*names, value):
    def change(state):
        entry(state, *names)[1] = value

    return change


def leave_out(state):
    pairs = entry(state, "state")[1]["dict"]
    pairs[:] = [pair for pair in pairs if pair[0] != "model"]


FORGED = [
    (put("num_classes", value=10**9), "holds no whole learner (it says 6 classes and has not as many)"),
    (put("state", "num_classes", value=10**9), "classes and has not as many"),
    (put("image_shape", value={"tuple": [3, 10**5, 10**5]}), "an image has at most 16,777,216 numbers"),
    (put("image_shape", value={"tuple": [3, 2000, 2000]}), "it has fewer weights than its network"),
    (put("image_shape", value="x"), "image_shape is (channels, height, width)"),
    (put("settings", "backbone", value="resnet18"), "it has fewer weights than its network"),
    (put("settings", "backbone", value="os:system"), "has a network of your own, os:system"),
    (put("settings", "buffer_size", value=2**60), "a budget is at most"),
    (put("settings", "buffer_size", value=50), "the state is of another ER (memory"),
    (put("settings", "lr", value="x"), "lr is a number"),
    (put("settings", value=[]), "holds no whole learner"),
    (put("method", value="Nobody"), "is a learner of Nobody, which is no method"),
    (put("method", value="SAMC"), "holds no whole learner"),
    (put("state", "random", value=3), "holds no whole learner"),
    (put("state", "model", value={"dict": []}), "holds no whole learner"),
    (put("state", "model", "heads._extra_state", value={"dict": [["task_classes", {"dict": [[0, {"tuple": [99]}]]}]]}),
     "task 0 has classes that its heads have not"),
    (put("state", "memory", value={"dict": [[0, {"dict": [["items", [{"tuple": ["x", "y"]}]], ["offered", 1]]}]]}),
     "holds no whole learner"),
    (put("state", "live_room", value=2**50), "the state has room for more images than it keeps"),
    (leave_out, "holds no whole learner"),
    (put("state", value=None), "holds no whole learner"),
]  # fmt: skip


@pytest.fixture(scope="module")
def learner_file(tmp_path_factory):
    learner = samc.ER(6, SHAPE, backbone="mlp")
    x = torch.zeros(4, *SHAPE, dtype=torch.uint8)
    learner.observe(x, torch.tensor([0, 1, 0, 1]), 0)
    return learner.save(tmp_path_factory.mktemp("learner") / "learner.safetensors")


@pytest.mark.parametrize(("change", "message"), FORGED)
def test_a_forged_learner_is_one_line(change, message, learner_file, tmp_path, request):
    path = tmp_path / "forged.safetensors"
    path.write_bytes(changed_state(learner_file.read_bytes(), change))
    jaxtyping.config.update("jaxtyping_disable", True)  # it meets our own checks, not the tests'
    request.addfinalizer(lambda: jaxtyping.config.update("jaxtyping_disable", False))
    assert message in refused(path)


FORGED_CHECKPOINTS = [
    ("er", put("so_far", "test_images", value=[2**53, 6]), "its numbers of images are none"),
    ("er", put("watchers", "Recollector", "then", value={"dict": [[0, "x"]]}), "holds no whole checkpoint"),
    (
        "er",
        put("watchers", "Recollector", "then", value={"dict": [[0, {"dict": [["x", 1]]}]]}),
        "answers on remembered",
    ),
    ("er", put("at_start", value={"dict": []}), "it does not say what its batches were drawn from"),
    ("er", put("watchers", "Recollector", "then", value=3), "holds no whole checkpoint"),
    ("samc", put("watchers", "Recollector", "maps", value=None), "its saliency maps are none"),
    ("samc", put("watchers", "Recollector", "digests", value=[1]), "holds no whole checkpoint"),
]


@pytest.mark.parametrize(("model", "change", "message"), FORGED_CHECKPOINTS)
def test_a_forged_checkpoint_is_one_line(model, change, message, tmp_path, command):
    """What those who look on have seen is a part of it, and is looked at before the run goes on."""
    shutil.copytree(interrupted(model), tmp_path / "run")
    for path in (tmp_path / "run").glob("checkpoint-*"):
        path.write_bytes(changed_state(path.read_bytes(), change))
    code, out, err = command("run", "--resume", tmp_path / "run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_names_of_loggers_are_texts(tmp_path, command):
    shutil.copytree(interrupted("er"), tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"log": [["csv"]]}))
    code, out, err = command("run", "--resume", tmp_path / "run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "does not say what run it is (log is (['csv'],))" in err


def test_a_memory_of_many_images_in_few_bytes_is_refused(tmp_path):
    learner = samc.ER(6, (3, 128, 128), codec="jpeg:1", memory_bytes="1MB/task")
    learner.observe(torch.zeros(4, 3, 128, 128, dtype=torch.uint8), torch.tensor([0, 1, 0, 1]), 0)
    state = learner.state_dict()
    count = FREE_PIXELS // 128**2  # as images more than may be taken
    assert count * 3 * 128**2 > MOST_MEMORY
    state["memory"][0]["items"] = [(b"\0", b"\0")] * count
    learner.state_dict = lambda: state
    path = learner.save(tmp_path / "thin.safetensors")
    assert "its memory has too few bytes for so many images of that size" in refused(path)


def test_the_forger_leaves_what_it_does_not_change(learner_file):
    content = learner_file.read_bytes()
    assert changed_state(content, lambda state: None) == content
    assert json.loads(json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"][KEY])["sha256"]
    assert hashlib.sha256(content).hexdigest() != hashlib.sha256(changed_state(content, leave_out)).hexdigest()
