"""A learner's network elsewhere: ONNX and TorchScript answer as it does; `samc predict` and `samc export`."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import samc
from networks import make
from record_makers import record
from samc.errors import ConfigError, printable
from samc.learners import LEARNERS
from toys import random_batch

SHAPE = (3, 16, 16)
TASKS = ((0, 3), (1, 2), (4, 5))


def learnt(name, shape=SHAPE, **given):
    learner = LEARNERS[name](6, shape, task_classes=TASKS, lr=0.05, seed=1, **given)
    for task, classes in enumerate(TASKS):
        for step in range(2):
            learner.observe(*random_batch(4, shape, classes, seed=step), task)
    return learner


def by_task(columns, logits):
    """For each task its classes, and which of them the highest logit speaks for."""
    found = {}
    for task in {column["task"] for column in columns}:
        places = [place for place, column in enumerate(columns) if column["task"] == task]
        labels = torch.tensor([columns[place]["class"] for place in places])
        found[task] = labels[torch.as_tensor(logits)[:, places].argmax(1)]
    return found


def images(count=7, shape=SHAPE):
    return torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(5))


def expected_logits(learner, x):
    model = learner.answering.model.eval()
    with torch.no_grad():
        pooled = model.pooled(model.features(x.float() / 255))
        return torch.cat([model.heads(pooled, task) for task in range(len(TASKS))], 1)


@pytest.mark.parametrize(
    ("name", "given"),
    [("er", {}), ("samc", {"average": 0.5, "mean": (0.4, 0.5, 0.6), "std": (0.2, 0.3, 0.4)}), ("ebm", {})],
)
def test_torchscript_answers_as_the_learner_does(name, given, tmp_path):
    learner = learnt(name, **given)
    path = samc.export(learner, tmp_path / "net.pt")
    extra = {"samc.json": ""}
    with pytest.warns(DeprecationWarning, match="torch.jit.load"):
        loaded = torch.jit.load(path, _extra_files=extra)
    x = images()
    found = loaded(x.float() / 255)
    torch.testing.assert_close(found, expected_logits(learner, x), atol=1e-5, rtol=1e-5)
    for task, labels in by_task(json.loads(extra["samc.json"]), found).items():
        assert torch.equal(labels, learner.predict(x, task))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "given"), [("er", {}), ("samc", {"average": 0.5})])
def test_onnx_answers_as_the_learner_does(name, given, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    learner = learnt(name, **given)
    session = runtime.InferenceSession(samc.export(learner, tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    columns = json.loads(session.get_modelmeta().custom_metadata_map["samc"])
    for count in (1, 7):  # any number of images
        x = images(count)
        (found,) = session.run(["logits"], {"images": x.numpy().astype(np.float32) / 255})
        expected = expected_logits(learner, x).numpy()
        # a sum of large terms is rounded by what they are, not by what is left: to 1e-5 of the largest logit
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max(), rtol=1e-5)
        for task, labels in by_task(columns, found).items():
            assert torch.equal(labels, learner.predict(x, task))


def test_what_cannot_be_exported_is_refused_in_a_line(tmp_path):
    with pytest.raises(ConfigError, match="answers by what it remembers"):
        samc.export(learnt("icarl"), tmp_path / "net.pt")
    with pytest.raises(ConfigError, match=r"ends in \.onnx or \.pt"):
        samc.export(learnt("er"), tmp_path / "net.bin")
    with pytest.raises(ConfigError, match="no task yet"):
        samc.export(samc.ER(6, SHAPE), tmp_path / "net.pt")
    (tmp_path / "net.pt").write_bytes(b"mine")
    with pytest.raises(samc.UserError, match="there already"):
        samc.export(learnt("er"), tmp_path / "net.pt")
    assert (tmp_path / "net.pt").read_bytes() == b"mine"


def test_a_network_of_your_own_is_exported_too(tmp_path):
    learner = learnt("er", (3, 8, 8), model=make("biases"))
    samc.export(learner, tmp_path / "net.pt")
    with pytest.warns(DeprecationWarning, match="torch.jit.load"):
        loaded = torch.jit.load(tmp_path / "net.pt")
    x = images(shape=(3, 8, 8))
    torch.testing.assert_close(loaded(x.float() / 255), expected_logits(learner, x), atol=1e-5, rtol=1e-5)


def test_the_commands(command, tmp_path):
    learner = learnt("er")
    learner.save(tmp_path / "learner.safetensors")
    x = images(2)
    for number, image in enumerate(x):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / f"{number}.png")
    files = [tmp_path / "0.png", tmp_path / "1.png"]
    code, out, err = command("predict", tmp_path, "--task", 1, *files)
    assert (code, err) == (0, "")
    expected = learner.predict(x, 1).tolist()
    assert out == "".join(f"{file}: class {label}\n" for file, label in zip(files, expected, strict=True))
    names = ["red", "\x1b[31m", "cat", "dog", "a", "b"]
    replace(record(model="er"), class_names=names).save(tmp_path)
    for run in (tmp_path, tmp_path / "learner.safetensors"):
        code, out, err = command("predict", run, "--task", 1, *files)
        known = [printable(f"class {label}, {names[label]}") for label in expected]
        assert out == "".join(f"{file}: {name}\n" for file, name in zip(files, known, strict=True))
    code, out, err = command("export", tmp_path, "--torchscript", tmp_path / "net.pt")
    assert (code, err) == (0, "")
    assert "images of 3x16x16 in, 6 logits out" in out
    for given, message in (
        (("export", tmp_path), "say what to write"),
        (("export", tmp_path, "--onnx", tmp_path / "net.pt"), "should end in .onnx"),
        (("predict", tmp_path, "--task", 9, *files), "task 9 has not been seen yet"),
        (("predict", tmp_path / "none", "--task", 0, *files), "none"),
        (("predict", tmp_path, "--task", 0, tmp_path / "learner.safetensors"), "cannot read"),
    ):
        code, _, err = command(*given)
        assert (code, err.count("\n")) == (2, 1)
        assert message in err


def test_grey_images_and_other_sizes(command, tmp_path):
    learnt("er", (1, 8, 8)).save(tmp_path / "learner.safetensors")
    Image.fromarray(images(1, (20, 20)).numpy()[0]).save(tmp_path / "grey.png")
    code, out, err = command("predict", tmp_path, "--task", 0, tmp_path / "grey.png")
    assert (code, err) == (0, "")
    assert out.endswith((": class 0\n", ": class 3\n"))
