"""Pretrained weights: how they are made, until when, that a seed makes the same ones, what a learner does with them."""

import hashlib
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load, save

import samc
from data_makers import real_data
from samc.completion import RULES, Completion
from samc.errors import ConfigError, DataError
from samc.experiments import pretraining
from samc.experiments.pretraining import as_file, pretrain, random_masks, training_images
from samc.learners import build, configure
from samc.learners.samc import SAMCSettings
from samc.models import InpaintingAutoencoder
from samc.models.pretrained import PACKAGED, load_pretrained, start_for
from samc.similarity import psnr, squared_error
from toys import coloured_squares, random_batch

WHOLE = {"completion": "telea+autoencoder", "autoencoder_output": "whole", "codec": "coo"}
encode = InpaintingAutoencoder.encode
START = WHOLE | {"autoencoder": "pretrained", "autoencoder_steps": 0}

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


def test_a_threshold_of_its_own_makes_smaller_masks_of_the_same_maps():
    low, high = (random_masks(20, 16, 16, np.random.default_rng(0), (value, value)) for value in (0.5, 0.9))
    assert (high <= low).all()
    assert high.sum() < low.sum()


@pytest.mark.parametrize("side", [16, 20])
def test_the_error_on_held_out_images_falls(side):
    """Of copies of the same two, so that a few steps are enough."""
    told = []
    images = waves(2, side).repeat(30, 1, 1, 1)
    learnt = pretrain(images, steps=200, batch_size=16, enlarged=0, every=50, tell=lambda *found: told.append(found))
    steps, errors = zip(*told, strict=True)
    assert steps == (50, 100, 150, 200)
    assert min(errors) < 0.7 * errors[0]
    assert learnt.error == min(errors)
    assert learnt.best_step == steps[errors.index(learnt.error)]
    assert (learnt.steps, learnt.held_out) == (200, 6)
    assert not learnt.autoencoder.training
    assert not learnt.autoencoder.residual


def test_every_second_batch_is_enlarged_and_every_fourth_held_out_image_as_well(monkeypatch):
    sizes = []
    monkeypatch.setattr(InpaintingAutoencoder, "encode", lambda self, x: sizes.append(x.shape) or encode(self, x))
    pretrain(waves(120), steps=4, batch_size=8, enlarged=24)
    held_out = [(8, 3, 16, 16), (4, 3, 16, 16), (2, 3, 24, 24), (1, 3, 24, 24)]
    assert sizes == [(8, 3, 16, 16), (2, 3, 24, 24)] * 2 + held_out


def judged_as(monkeypatch, errors):
    """Pretraining in which these are the errors on held-out images; returns the networks as they were judged."""
    found, states = iter(errors), []

    def held_out_error(autoencoder, judged):
        states.append({name: value.clone() for name, value in autoencoder.state_dict().items()})
        return next(found)

    monkeypatch.setattr(pretraining, "held_out_error", held_out_error)
    return states


def test_it_ends_when_it_no_longer_improves_and_returns_what_did_best(monkeypatch):
    states = judged_as(monkeypatch, [0.5, 0.4, 0.3999, 0.45, 0.41, 0.1])  # the third is better, but hardly
    learnt = pretrain(waves(20), steps=100, patience=3, batch_size=4, every=2)
    assert len(states) == 5
    assert (learnt.steps, learnt.best_step, learnt.error) == (10, 6, 0.3999)
    assert same(learnt.autoencoder.state_dict(), states[2])
    assert not same(states[2], states[4])


def test_it_goes_on_while_it_improves_and_the_last_step_is_judged_too(monkeypatch):
    states = judged_as(monkeypatch, (0.9**step for step in itertools.count()))
    learnt = pretrain(waves(20), steps=9, patience=1, batch_size=4, every=2)
    assert len(states) == 5
    assert (learnt.steps, learnt.best_step) == (9, 9)


def test_the_step_size_is_halved_after_some_judgements_in_vain_and_again_after_as_many(monkeypatch):
    monkeypatch.setattr(pretraining, "HALVE", 2)
    judged_as(monkeypatch, [0.5, 0.6, 0.6, 0.4, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6])
    sizes, step = [], torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self: sizes.append(self.param_groups[0]["lr"]) or step(self))
    assert pretrain(waves(20), steps=100, patience=6, batch_size=4, every=1, lr=0.08).steps == 10
    assert sizes == pytest.approx([0.08] * 3 + [0.04] * 3 + [0.02] * 2 + [0.01] * 2)


def test_what_is_returned_is_an_average_of_the_weights(monkeypatch):
    after, step = [], torch.optim.Adam.step

    def spy(self):
        step(self)
        after.append([value.clone() for value in self.param_groups[0]["params"]])

    monkeypatch.setattr(torch.optim.Adam, "step", spy)
    learnt = pretrain(waves(20), steps=2, batch_size=4)
    for value, first, second in zip(learnt.autoencoder.parameters(), *after, strict=True):
        assert torch.allclose(value, 0.99 * first + 0.01 * second)


def test_held_out_images_are_never_trained_on(monkeypatch):
    """Each image has a colour of its own, so that it can be told whichever way it is flipped."""
    images = torch.arange(40, dtype=torch.uint8)[:, None, None, None].expand(40, 3, 8, 8)
    seen, error_on_dropped = {True: set(), False: set()}, pretraining.error_on_dropped

    def spy(autoencoder, batch):
        seen[autoencoder.training].update(batch.truth[:, 0, 0, 0].tolist())
        return error_on_dropped(autoencoder, batch)

    monkeypatch.setattr(pretraining, "error_on_dropped", spy)
    found = []
    for seed in (0, 0, 1):
        for colours in seen.values():
            colours.clear()
        assert pretrain(images, steps=60, batch_size=8, enlarged=12, every=30, seed=seed).held_out == 4
        assert len(seen[False]) == 4
        assert seen[True] == set(range(40)) - seen[False]
        found.append(set(seen[False]))
    assert found[0] == found[1] != found[2]


def test_masks_of_held_out_images_stay(monkeypatch):
    masks, error_on_dropped = [], pretraining.error_on_dropped

    def spy(autoencoder, batch):
        masks.extend([] if autoencoder.training else [batch.masks])
        return error_on_dropped(autoencoder, batch)

    monkeypatch.setattr(pretraining, "error_on_dropped", spy)
    pretrain(waves(20), steps=4, batch_size=4, enlarged=0, every=2)
    assert np.array_equal(*masks)


def test_the_same_seed_makes_the_same_weights():
    first, second, other = (
        pretrain(waves(20), steps=3, batch_size=4, seed=seed).autoencoder.state_dict() for seed in (1, 1, 2)
    )
    assert same(first, second)
    assert not same(first, other)


def test_without_patience_all_steps_are_made_on_all_images_and_the_step_size_rises_and_falls(monkeypatch):
    sizes, told, step = [], [], torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self: sizes.append(self.param_groups[0]["lr"]) or step(self))
    monkeypatch.setattr(pretraining, "held_out_error", None)
    how = {"steps": 20, "patience": 0, "batch_size": 4, "lr": 0.08, "every": 10}
    learnt = pretrain(waves(20), **how, tell=lambda *found: told.append(found))
    assert (learnt.steps, learnt.best_step, learnt.held_out) == (20, 20, 0)
    assert told[-1] == (20, learnt.error)
    peak = sizes.index(max(sizes))
    assert max(sizes) == pytest.approx(0.08, rel=0.05)
    assert sizes[: peak + 1] == sorted(sizes[: peak + 1])
    assert sizes[peak:] == sorted(sizes[peak:], reverse=True)
    assert 0 < peak < 19
    assert not learnt.autoencoder.training


@pytest.mark.parametrize("patience", [0, 1])
def test_a_step_size_beyond_all_bounds_is_refused(patience):
    with pytest.raises(ConfigError, match="an error of nan with an lr of 1e\\+30; take a smaller one"):
        pretrain(waves(20), steps=3, patience=patience, batch_size=4, lr=1e30)


def test_a_file_holds_the_weights_and_where_they_come_from(tmp_path):
    learnt = pretrain(waves(20), steps=2, batch_size=4).autoencoder
    content = as_file(learnt, dataset="toy", seed=0)
    assert content == as_file(learnt, dataset="toy", seed=0)
    assert same(load(content), learnt.state_dict())
    path = tmp_path / "weights.safetensors"
    path.write_bytes(content)
    with safe_open(path, "pt") as file:
        origin = json.loads(file.metadata()["pretrained"])
    assert origin["dataset"] == "toy"
    assert origin["versions"]["samc"] == samc.__version__


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"patience": -1}, {"batch_size": 1}, {"lr": 0.0}])
def test_pretraining_on_nothing_is_refused(wrong):
    with pytest.raises(ConfigError, match="pretraining takes"):
        pretrain(waves(4), **wrong)


def test_a_single_image_leaves_none_to_hold_out():
    with pytest.raises(DataError, match="at least 2 images, one of them to be held out; got 1"):
        pretrain(waves(1))


def test_grey_images_are_refused():
    grey = samc.streams.stream_of([(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 0, 1]))])
    with pytest.raises(DataError, match="images of three"):
        training_images(grey)
    with pytest.raises(ConfigError, match="three channels, these have 1; use stream"):
        samc.SAMC(2, (1, 16, 16), **START)


@pytest.mark.parametrize("start", PACKAGED)
def test_shipped_weights_fill_the_network_and_say_where_they_come_from(start):
    before, after = InpaintingAutoencoder(3).state_dict(), shipped(start).state_dict()
    assert not any(torch.equal(before[name], after[name]) for name in before)
    with safe_open(FOLDER / f"autoencoder-{PACKAGED[start]}.safetensors", "pt") as file:
        origin = json.loads(file.metadata()["pretrained"])
    assert origin["dataset"] == f"split-{PACKAGED[start]}"


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
    other = samc.SAMC(6, (3, 12, 12), **WHOLE)
    other.load_state_dict(learner.state_dict())  # what was learnt goes over what it started from
    assert same(other.autoencoder.state_dict(), shipped().state_dict())


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


def test_without_an_autoencoder_its_weights_are_idle():
    with pytest.raises(ConfigError, match="--autoencoder does nothing"):
        samc.SAMC(2, (3, 16, 16), completion="telea", autoencoder="pretrained")
    assert samc.SAMC(2, (3, 16, 16)).settings.autoencoder == "stream"


def test_old_records_learnt_from_the_stream_alone():
    config, _ = configure({"model": "samc"})
    known = {name: value for name, value in config.as_dict().items() if name != "autoencoder"}
    assert type(config).from_dict(known, SAMCSettings).settings.autoencoder == "stream"


def test_no_stream_gets_weights_that_have_seen_it():
    assert start_for("pretrained", "split-cifar10", "") == "pretrained:cifar100"
    assert start_for("pretrained", "split-cifar100", "") == start_for("pretrained", "anything", "") == "pretrained"
    assert start_for("stream", "split-cifar10", "") == "stream"
    with pytest.raises(ConfigError, match="was learnt from the images of split-cifar100; use pretrained"):
        start_for("pretrained:cifar100", "split-cifar100", "")


def test_a_run_on_cifar10_is_built_with_cifar100s():
    stream = coloured_squares(tasks=1, per_class=10)
    config, _ = configure({"model": "samc", **START})
    for name, start in (("split-cifar10", "pretrained:cifar100"), ("toy", "pretrained")):
        learner = build(config, replace(stream, name=name), torch.device("cpu"))
        assert same(learner.autoencoder.state_dict(), shipped(start).state_dict())


def written(path, learnt=None, **origin):
    """A file as samc pretrain writes it."""
    path.write_bytes(as_file(learnt or InpaintingAutoencoder(3, seed=5), **{"dataset": "a", "source": "b"} | origin))
    return str(path)


def test_a_learner_starts_from_a_file_and_says_which(tmp_path):
    path = written(tmp_path / "own.safetensors")
    learner = samc.SAMC(2, (3, 16, 16), **START | {"autoencoder": path})
    assert same(learner.autoencoder.state_dict(), InpaintingAutoencoder(3, seed=5).state_dict())
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:10]
    assert learner.settings.autoencoder == f"{path} sha256:{digest}"
    config, _ = configure({"model": "samc", **START, "autoencoder": path})
    assert config.settings.autoencoder == learner.settings.autoencoder
    again = samc.SAMC(2, (3, 16, 16), **START | {"autoencoder": learner.settings.autoencoder})
    assert again.settings == learner.settings


def test_a_record_names_one_content_of_a_file(tmp_path):
    path = tmp_path / "own.safetensors"
    config, _ = configure({"model": "samc", **START, "autoencoder": written(path)})
    written(path, InpaintingAutoencoder(3, seed=6))
    other, _ = configure({"model": "samc", **START, "autoencoder": str(path)})
    assert other != config
    with pytest.raises(ConfigError, match="by now, not sha256"):
        build(config, coloured_squares(tasks=1, per_class=10), torch.device("cpu"))
    path.unlink()
    assert type(config).from_dict(config.as_dict(), SAMCSettings) == config  # a record can be read without the file


@pytest.mark.parametrize("origin", [{"dataset": "toy"}, {"source": "own data, sha1 1234567890"}])
def test_a_file_is_refused_for_its_own_images(tmp_path, origin):
    path = written(tmp_path / "own.safetensors", **origin)
    stream = coloured_squares(tasks=1, per_class=10)
    config, _ = configure({"model": "samc", **START, "autoencoder": path})
    assert build(config, replace(stream, name="other", source="elsewhere"), torch.device("cpu"))
    source = "own data, sha1 1234567890, tested on a tenth of the training images"
    with pytest.raises(ConfigError, match="was learnt from the images of toy; use pretrained"):
        build(config, replace(stream, name="toy", source=source), torch.device("cpu"))


def test_a_file_that_cannot_be_used_is_refused(tmp_path):
    def start(path):
        return samc.SAMC(2, (3, 16, 16), **START | {"autoencoder": str(path)})

    with pytest.raises(ConfigError, match="file of samc pretrain; there is no file pretraind"):
        start("pretraind")
    with pytest.raises(ConfigError, match="there is no file"):
        start(tmp_path)
    path = tmp_path / "own.safetensors"
    written(path, InpaintingAutoencoder(1))
    with pytest.raises(ConfigError, match="does not fit InpaintingAutoencoder: 3 of another shape or type"):
        start(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="is no whole safetensors file"):
        start(path)
    path.write_bytes(save(InpaintingAutoencoder(3).state_dict()))
    with pytest.raises(ConfigError, match="does not say which images it was learnt from; make it with samc pretrain"):
        start(path)
    path.write_bytes(save(InpaintingAutoencoder(3).state_dict(), {"pretrained": "[]"}))
    with pytest.raises(ConfigError, match="does not say which images it was learnt from"):
        start(path)


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
    assert gain(np.ascontiguousarray(images.numpy()), start_for("pretrained", name, stream.source)) > 0.5


def test_the_command_writes_a_file_that_other_streams_take(command, tmp_path):
    for name, seed in (("own", 0), ("other", 1)):
        np.savez(tmp_path / name, x=waves(20, seed=seed).permute(0, 2, 3, 1).numpy(), y=np.arange(20) % 2)
    out = tmp_path / "mine.safetensors"
    arguments = ("pretrain", "--images", f"npz:{tmp_path / 'own.npz'}", "--steps", 2, "--batch-size", 4, "--out", out)
    code, printed, complaint = command(*arguments)
    assert code == 0, complaint
    assert "of step 2 of 2 (as many as were asked for); mean squared error on dropped pixels of held-out" in printed
    with safe_open(out, "pt") as file:
        origin = json.loads(file.metadata()["pretrained"])
    counts = {"images": 16, "held_out": 1, "most_steps": 2, "steps": 2, "best_step": 2, "patience": 12, "seed": 0}
    assert {name: origin[name] for name in counts} == counts
    assert origin["dataset"] == "npz:own.npz"
    assert 0 < origin["error"] < 1
    code, _, complaint = command(*arguments)
    assert (code, "is there already; choose another --out" in complaint) == (2, True)

    settings = [part for name, value in START.items() for part in (f"--{name.replace('_', '-')}", value)]
    arguments = ("run", *settings, "--autoencoder", out, "--device", "cpu", "--out")
    code, _, complaint = command(*arguments, tmp_path / "run", "--dataset", f"npz:{tmp_path / 'own.npz'}")
    assert code == 2
    assert complaint.endswith(" was learnt from the images of npz:own.npz; use pretrained\n")
    assert complaint.count("\n") == 1
    assert not (tmp_path / "run").exists()
    code, _, complaint = command(*arguments, tmp_path / "run", "--dataset", f"npz:{tmp_path / 'other.npz'}")
    assert code == 0, complaint
    config = samc.RunRecord.load(tmp_path / "run").config
    digest = hashlib.sha256(out.read_bytes()).hexdigest()[:10]
    assert config["autoencoder"] == f"{out} sha256:{digest}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--images", "split-synthetic", "--out", "weights.pt"), "ends in .safetensors, got weights.pt"),
        (("--images", "split-synthetic", "--out", "none/w.safetensors"), "there is no folder none"),
        (("--images", "split-cifar11", "--out", "w.safetensors"), "did you mean 'split-cifar10'?"),
    ],
)
def test_mistakes_are_one_line(arguments, message, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, complaint = command("pretrain", *arguments)
    assert code == 2
    assert message in complaint
    assert complaint.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
