"""Settings: flags over presets over defaults, and nothing that had no effect."""

from dataclasses import fields

import pytest

from samc.config import SHARED, RunConfig, flag, preset_values, presets, resolve
from samc.errors import ConfigError
from samc.learners import LEARNERS


def resolved(**given):
    return resolve(given, LEARNERS[given.get("model", "samc")].settings)


def test_the_papers_best_values_are_applied_by_stream():
    paper = resolved(dataset="split-cifar10", preset="paper")[0]
    assert (paper.threshold, paper.codec, paper.accounting, paper.autoencoder_output) == (0.6, "coo", "values", "whole")
    assert resolved(dataset="split-cifar100", preset="paper")[0].threshold == 0.7
    best = resolved(dataset="split-cifar100")[0]
    assert (best.codec, best.replay, best.accounting) == ("focus:jpeg:5", "er", "bytes")
    assert resolved(dataset="split-cifar100", preset="best", model="gem")[0].memory_strength == 0.5
    assert resolved(dataset="split-cifar100", model="finetune")[0].lr == 1.0
    config, shown = resolved(dataset="split-mini-imagenet", model="gem")
    assert (config.lr, config.memory_strength) == (0.1, 0.5)
    assert shown == {"lr": 0.1, "memory_strength": 0.5}


def test_a_flag_wins_over_the_preset_and_is_not_shown_as_its():
    config, shown = resolved(dataset="split-cifar10", threshold=0.3)
    assert config.threshold == 0.3
    assert "threshold" not in shown
    assert "lr" in shown


def test_none_and_own_data_take_the_defaults():
    config, shown = resolved(dataset="split-cifar10", preset="none")
    defaults = RunConfig(dataset="split-cifar10", preset="none")
    assert all(getattr(config, name) == getattr(defaults, name) for name in (*SHARED, *LEARNERS["samc"].settings))
    assert shown == {}
    assert resolved(dataset="npz:x.npz")[1] == {}


def test_settings_that_a_method_does_not_use_are_refused_or_left_empty():
    with pytest.raises(ConfigError, match="finetune has no --threshold; it takes --lr"):
        resolved(model="finetune", threshold=0.5)
    config, _ = resolved(model="gem", preset="none")
    assert config.threshold is None
    assert config.completion is None
    assert config.memory_strength == 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"accounting": "byte"}, "unknown --accounting 'byte': did you mean 'bytes'"),
        ({"replay": "gemm"}, "unknown --replay 'gemm': did you mean 'gem'"),
        ({"saliency_target": "labels"}, "unknown --saliency-target 'labels': did you mean 'label'"),
        ({"saliency_mode": "evaluation"}, "unknown --saliency-mode 'evaluation'"),
        ({"batch_size": 0}, "--batch-size is a whole number from 1, got 0"),
        ({"autoencoder_steps": -1}, "--autoencoder-steps is a whole number from 0, got -1"),
        ({"image_size": 999_999}, "--image-size is at most 1,024 pixels a side, got 999999"),
        ({"codec": ""}, "--codec is empty; leave it out, or give it a value"),
        ({"seed": -1}, "--seed is a whole number from 0 to 9223372036854775807, got -1"),
        ({"lr": float("inf")}, "--lr is a finite number, got inf"),
        ({"memory_strength": float("nan")}, "--memory-strength is a finite number, got nan"),
        ({"n_epochs": -1}, "--n-epochs is a whole number from 1, got -1"),
        ({"preset": "papers"}, "unknown preset 'papers': did you mean 'paper'"),
        ({"preset": "paper"}, "preset 'paper' has no values for split-synthetic; it has split-cifar10"),
    ],
)
def test_values_that_cannot_be_used(given, message):
    with pytest.raises(ConfigError, match=message):
        resolved(**given)


def test_every_preset_is_one_of_its_grid_and_of_its_methods_settings():
    names = {item.name for item in fields(RunConfig)}
    for preset, streams in presets().items():
        for stream, methods in streams.items():
            for method, settings in methods.items():
                assert set(settings) <= set(LEARNERS[method].settings) <= names
                assert all(entry["value"] in entry["grid"] for entry in settings.values())
                assert all(entry.get("source", "ours") == "ours" for entry in settings.values())
                resolve({"model": method, "dataset": stream, "preset": preset}, LEARNERS[method].settings)


def test_every_paper_stream_has_values_for_every_method():
    for stream in ("split-cifar10", "split-cifar100", "split-mini-imagenet"):
        for method in LEARNERS:
            assert preset_values("auto", stream, method)


@pytest.mark.parametrize(
    ("name", "value"), [("constraints", "mean"), ("reference_precision", "bf16"), ("memory_strength", 1.0)]
)
def test_a_setting_of_the_cone_is_refused_where_there_is_none(name, value):
    given = {"dataset": "split-cifar100", name: value}
    with pytest.raises(ConfigError, match=f"{flag(name)} does nothing with --replay er; add --replay gem"):
        resolved(**given)
    assert getattr(resolved(**given, replay="gem")[0], name) == value
