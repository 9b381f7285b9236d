"""Pretrained weights: how they are made, that the same seed makes the same ones, and what a learner does with them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load

import samc
from data_makers import real_data
from samc.completion import RULES, Completion
from samc.errors import ConfigError, DataError
from samc.experiments.pretraining import as_file, pretrain, random_masks, training_images
from samc.learners import build, configure
from samc.learners.samc import SAMCSettings
from samc.models import InpaintingAutoencoder
from samc.models.pretrained import PRETRAINED, load_pretrained, start_for
from samc.similarity import psnr, squared_error
from toys import coloured_squares, random_batch

WHOLE = {"completion": "telea+autoencoder", "autoencoder_output": "whole", "codec": "coo"}
encode = InpaintingAutoencoder.encode
START = WHOLE | {"autoencoder_start": "pretrained", "autoencoder_steps": 0}

FOLDER = Path(samc.__file__).parent / "models"


def waves(count, side=16, seed=0):
    """Smooth coloured images, whose dropped pixels their kept ones tell something of."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[:side, :side]
    angle, phase = random.uniform(0, 6, (2, count, 3, 1, 1))
    x = 127 + 120 * np.sin(0.4 * (np.cos(angle) * rows + np.sin(angle) * columns) + phase)
    return torch.from_numpy(x.astype(np.uint8))


def shipped(start="pretrained"):
    autoencoder = InpaintingAutoencoder(3)
    load_pretrained(autoencoder, start)
    return autoencoder


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first) and first.keys() == second.keys()


@pytest.mark.parametrize("side", [32, 84])
def test_random_masks_keep_about_what_grad_cam_keeps(side):
    random = np.random.default_rng(0)
    shares = [random_masks(20, side, side, random).mean() for _ in range(20)]
    assert 0.15 < np.mean(shares) < 0.3


@pytest.mark.parametrize("side", [16, 20])
def test_the_error_falls(side):
    losses = []
    learnt = pretrain(
        waves(60, side), steps=120, batch_size=16, enlarged=0, tell=lambda step, loss: losses.append(loss)
    )
    assert len(losses) == 120
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])
    assert not learnt.training
    assert not learnt.residual


def test_every_second_batch_is_enlarged(monkeypatch):
    sizes = []
    monkeypatch.setattr(InpaintingAutoencoder, "encode", lambda self, x: sizes.append(x.shape) or encode(self, x))
    pretrain(waves(10), steps=4, batch_size=8, enlarged=24)
    assert sizes == [(8, 3, 16, 16), (2, 3, 24, 24)] * 2


def test_the_same_seed_makes_the_same_weights():
    first, second, other = (pretrain(waves(20), steps=3, batch_size=4, seed=seed).state_dict() for seed in (1, 1, 2))
    assert same(first, second)
    assert not same(first, other)


def test_a_file_holds_the_weights_and_where_they_come_from(tmp_path):
    learnt = pretrain(waves(20), steps=2, batch_size=4)
    content = as_file(learnt, dataset="toy", seed=0)
    assert content == as_file(learnt, dataset="toy", seed=0)
    assert same(load(content), learnt.state_dict())
    path = tmp_path / "weights.safetensors"
    path.write_bytes(content)
    with safe_open(path, "pt") as file:
        origin = json.loads(file.metadata()["pretrained"])
    assert origin["dataset"] == "toy"
    assert origin["versions"]["samc"] == samc.__version__


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"batch_size": 1}, {"lr": 0.0}])
def test_pretraining_on_nothing_is_refused(wrong):
    with pytest.raises(ConfigError, match="pretraining takes"):
        pretrain(waves(4), **wrong)


def test_grey_images_are_refused():
    grey = samc.streams.stream_of([(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 0, 1]))])
    with pytest.raises(DataError, match="images of three"):
        training_images(grey)
    with pytest.raises(ConfigError, match="three channels, these have 1; use drawn"):
        samc.SAMC(2, (1, 16, 16), **START)


@pytest.mark.parametrize("start", PRETRAINED)
def test_shipped_weights_fill_the_network_and_say_where_they_come_from(start):
    before, after = InpaintingAutoencoder(3).state_dict(), shipped(start).state_dict()
    assert not any(torch.equal(before[name], after[name]) for name in before)
    with safe_open(FOLDER / f"autoencoder-{PRETRAINED[start]}.safetensors", "pt") as file:
        origin = json.loads(file.metadata()["pretrained"])
    assert origin["dataset"] == f"split-{PRETRAINED[start]}"


def test_a_learner_starts_from_them_and_leaves_them_alone():
    learner = samc.SAMC(6, (3, 12, 12), **START)
    for task in list(coloured_squares(tasks=2, per_class=10)):
        learner.begin_task(task)
        for x, y in task.batches(10):
            learner.observe(x, y, task.id)
        learner.end_task(task)
    assert same(learner.autoencoder.state_dict(), shipped().state_dict())
    assert learner.memory_report()["bytes_by_part"]["autoencoder"] == 86_244
    again = samc.SAMC(6, (3, 12, 12), **START)
    again.load_state_dict(learner.state_dict())
    x, _ = random_batch(4)
    assert torch.equal(again.predict(x, 0), learner.predict(x, 0))
    drawn = samc.SAMC(6, (3, 12, 12), **WHOLE)
    drawn.load_state_dict(learner.state_dict())  # what was learnt goes over what it started from
    assert same(drawn.autoencoder.state_dict(), shipped().state_dict())


def test_steps_on_the_stream_move_them():
    learner = samc.SAMC(6, (3, 12, 12), **START | {"autoencoder_steps": 2})
    (task, *_) = coloured_squares(tasks=1, per_class=10)
    learner.begin_task(task)
    learner.end_task(task)
    assert not same(learner.autoencoder.state_dict(), shipped().state_dict())


def test_a_correction_has_no_pretrained_weights():
    with pytest.raises(ConfigError, match="paints the whole image; add --autoencoder-output whole"):
        samc.SAMC(2, (3, 16, 16), **START | {"autoencoder_output": "correction"})
    alone = samc.SAMC(2, (3, 16, 16), **START | {"autoencoder_output": "correction", "completion": "autoencoder"})
    assert same(alone.autoencoder.state_dict(), shipped().state_dict())


def test_without_an_autoencoder_its_start_is_idle():
    with pytest.raises(ConfigError, match="--autoencoder-start does nothing"):
        samc.SAMC(2, (3, 16, 16), completion="telea", autoencoder_start="pretrained")
    assert samc.SAMC(2, (3, 16, 16)).settings.autoencoder_start == "drawn"


def test_old_records_started_from_drawn_weights():
    config, _ = configure({"model": "samc"})
    known = {name: value for name, value in config.as_dict().items() if name != "autoencoder_start"}
    assert type(config).from_dict(known, SAMCSettings).settings.autoencoder_start == "drawn"


def test_no_stream_gets_weights_that_have_seen_it():
    assert start_for("pretrained", "split-cifar10") == "pretrained-cifar100"
    assert start_for("pretrained", "split-cifar100") == start_for("pretrained", "anything") == "pretrained"
    assert start_for("drawn", "split-cifar10") == "drawn"
    with pytest.raises(ConfigError, match="has seen the images of split-cifar100; use pretrained"):
        start_for("pretrained-cifar100", "split-cifar100")


def test_a_run_on_cifar10_is_built_with_cifar100s():
    stream = coloured_squares(tasks=1, per_class=10)
    config, _ = configure({"model": "samc", **START})
    for name, start in (("split-cifar10", "pretrained-cifar100"), ("toy", "pretrained")):
        named = type(stream)(name, stream.tasks, stream.num_classes, stream.class_names, stream.source)
        learner = build(config, named, torch.device("cpu"))
        assert same(learner.autoencoder.state_dict(), shipped(start).state_dict())


def gain(images, start):
    """Decibels on dropped pixels above Telea's rule."""
    masks = random_masks(len(images), *images.shape[2:], np.random.default_rng(0))
    masked, truth = RULES["zero"](images, masks), images / np.float32(255)
    errors = [
        squared_error(Completion(RULES["telea"], autoencoder)(masked, masks).numpy(), truth, ~masks)
        for autoencoder in (None, shipped(start))
    ]
    return psnr(errors[1]) - psnr(errors[0])


def test_they_are_better_than_telea_on_the_embedded_stream():
    images = samc.streams.split_synthetic(n_tasks=1)[0].test_x[:200]
    assert gain(np.ascontiguousarray(images.numpy()), "pretrained") > 0.3


@pytest.mark.slow
@pytest.mark.parametrize(("name", "folder"), [
    ("split-cifar10", "cifar-10-batches-bin"),
    ("split-cifar100", "cifar-100-python"),
    ("split-mini-imagenet", "mini-imagenet"),
])  # fmt: skip
def test_they_are_better_than_telea_on_real_images(name, folder):
    """Over all classes: single ones, such as fish before plain water, leave less to guess."""
    stream = samc.streams.open_stream(name, data_dir=real_data(folder), tested_on="held-out")
    images = torch.cat([task.test_x[: 400 // len(stream.tasks)] for task in stream])
    assert gain(np.ascontiguousarray(images.numpy()), start_for("pretrained", name)) > 0.5


def test_the_command_writes_a_file_that_the_network_takes(command, tmp_path):
    np.savez(tmp_path / "own", x=waves(20).permute(0, 2, 3, 1).numpy(), y=np.arange(20) % 2)
    out = tmp_path / "mine.safetensors"
    arguments = ("pretrain", "--dataset", f"npz:{tmp_path / 'own.npz'}", "--steps", 2, "--batch-size", 4, "--out", out)
    code, printed, complaint = command(*arguments)
    assert code == 0, complaint
    assert "mean squared error on dropped pixels" in printed
    assert load(out.read_bytes()).keys() == InpaintingAutoencoder(3).state_dict().keys()
    code, _, complaint = command(*arguments)
    assert (code, "is there already; choose another --out" in complaint) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dataset", "split-synthetic", "--out", "weights.pt"), "ends in .safetensors, got weights.pt"),
        (("--dataset", "split-synthetic", "--out", "none/w.safetensors"), "there is no folder none"),
        (("--dataset", "split-cifar11", "--out", "w.safetensors"), "did you mean 'split-cifar10'?"),
    ],
)
def test_mistakes_are_one_line(arguments, message, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, complaint = command("pretrain", *arguments)
    assert code == 2
    assert message in complaint
    assert complaint.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
