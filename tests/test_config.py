"""Settings: flags over presets over defaults, nothing that had no effect, and each default and range in one place."""

import ast
import inspect
import json
import pydoc
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

import samc
from record_makers import record
from samc.cli.flags import GroupedCommand, all_settings, described_flags
from samc.config import RunConfig, Terms, check_setting, flag, kinds, setting_fields
from samc.errors import ConfigError
from samc.learners import LEARNERS, NetworkLearner, configure
from samc.presets import preset_values, presets
from samc.record import RunRecord

ROOT = Path(samc.__file__).parent
SHAPE = (3, 12, 12)
STREAMS = ("split-cifar10", "split-cifar100", "split-mini-imagenet")


def resolved(**given):
    return configure(given)


def test_the_papers_best_values_are_applied_by_stream():
    paper = resolved(dataset="split-cifar10", preset="paper")[0]
    own = paper.settings
    assert (own.threshold, own.codec, own.accounting, own.autoencoder_output) == (0.6, "coo", "values", "whole")
    assert paper.accounting == "values"  # the terms of a comparison are a run's too
    assert resolved(dataset="split-cifar100", preset="paper")[0].settings.threshold == 0.7
    best = resolved(dataset="split-cifar100")[0].settings
    assert best == LEARNERS["samc"].Settings()
    assert (best.codec, best.replay, best.accounting) == ("auto", "er", "bytes")
    assert resolved(dataset="split-cifar100", preset="best", model="gem")[0].settings.memory_strength == 0.5
    assert resolved(dataset="split-cifar100", model="finetune")[0].settings.lr == 1.0
    config, shown = resolved(dataset="split-mini-imagenet", model="gem")
    assert (config.settings.lr, config.settings.memory_strength) == (0.1, 0.5)
    assert shown == {"lr": 0.1, "memory_strength": 0.5}


def test_a_flag_wins_over_the_preset_and_is_not_shown_as_its():
    config, shown = resolved(dataset="split-cifar10", preset="paper", threshold=0.3)
    assert config.settings.threshold == 0.3
    assert "threshold" not in shown
    assert "lr" in shown


def test_none_and_own_data_take_the_defaults():
    config, shown = resolved(dataset="split-cifar10", preset="none")
    assert config == RunConfig(dataset="split-cifar10", preset="none", settings=LEARNERS["samc"].Settings())
    assert shown == {}
    assert resolved(dataset="npz:x.npz")[1] == {}


def test_settings_that_a_method_does_not_use_are_refused_and_not_there():
    with pytest.raises(ConfigError, match="finetune has no --threshold; it takes --lr"):
        resolved(model="finetune", threshold=0.5)
    config, _ = resolved(model="gem", preset="none")
    assert not {"threshold", "completion"} & set(config.as_dict())
    assert config.settings.memory_strength == 0.5


@pytest.mark.parametrize("given", [{"batch_size": 2**63 - 1}, {"lr": 3.3e38}, {"seed": 2**60, "test_every": 2**60}])
def test_whatever_a_setting_may_be_its_record_can_be_read(given, tmp_path):
    config, _ = resolved(model="er", **given)
    values = config.as_dict()
    earlier = {"dataset": "split-synthetic", "seed": config.seed, "first_task": 0, "first_class": 0}
    continues = {"record": "0" * 64, "streams": [earlier], "first_task": 1, "first_class": 4}
    written = replace(record(), config=values, continues=continues)
    written.save(tmp_path)
    read = RunRecord.load(tmp_path)
    assert RunConfig.from_dict(read.config, LEARNERS["er"].Settings) == config
    assert read.continues == continues


def test_a_text_that_no_record_could_hold_is_refused():
    with pytest.raises(ConfigError, match="dataset has at most 10,000 characters, got 10,004"):
        resolved(dataset="npz:" + "x" * 10_000)


def test_a_config_survives_a_record():
    for name in LEARNERS:
        config, _ = resolved(model=name, dataset="split-cifar100", seed=3, buffer_size=5)
        written = json.loads(json.dumps(config.as_dict()))
        assert RunConfig.from_dict(written, LEARNERS[name].Settings) == config


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"accounting": "byte"}, "unknown accounting 'byte': did you mean 'bytes'"),
        ({"replay": "gemm"}, "unknown replay 'gemm': did you mean 'gem'"),
        ({"saliency_target": "labels"}, "unknown saliency-target 'labels': did you mean 'label'"),
        ({"saliency_mode": "evaluation"}, "unknown saliency-mode 'evaluation'.*known: eval, train, batch"),
        ({"batch_size": 0}, "batch-size is at least 1, got 0"),
        ({"autoencoder_steps": -1}, "autoencoder-steps is at least 0, got -1"),
        ({"image_size": 999_999}, r"image-size is in \[1, 1024\], got 999999"),
        ({"codec": ""}, "codec is empty; leave it out, or give it a value"),
        ({"seed": -1}, r"seed is in \[0, 9223372036854775807\], got -1"),
        ({"lr": float("inf")}, "lr is above 0, got inf; the paper uses 0.1"),
        ({"replay": "gem", "memory_strength": float("nan")}, "memory-strength is at least 0, got nan"),
        ({"n_epochs": -1}, "n-epochs is at least 1, got -1"),
        ({"tested_on": "train"}, "unknown tested-on 'train'.*known: test, held-out"),
        ({"preset": "papers"}, "unknown preset 'papers': did you mean 'paper'"),
        (
            {"preset": "paper", "model": "gem"},
            "preset 'paper' has no values of gem for split-synthetic; it has split-cifar10",
        ),
    ],
)
def test_values_that_cannot_be_used(given, message):
    with pytest.raises(ConfigError, match=message):
        resolved(**given)


@pytest.mark.parametrize(
    ("name", "value"), [("constraints", "mean"), ("reference_precision", "bf16"), ("memory_strength", 1.0)]
)
def test_a_setting_of_the_cone_is_refused_where_there_is_none(name, value):
    given = {"dataset": "split-cifar100", name: value}
    with pytest.raises(ConfigError, match=f"{flag(name)} does nothing with --replay er; add --replay gem"):
        resolved(**given)
    assert getattr(resolved(**given, replay="gem")[0].settings, name) == value


# -- presets


def test_every_preset_is_one_of_its_grid_and_of_its_methods_settings_and_passes_their_checks():
    for preset, streams in presets().items():
        for where, methods in streams.items():
            stream, *kind = where.split("/")
            scenario = dict(zip(("scenario", "boundaries"), kind, strict=False))
            scenario |= {"memory_bytes": "600KB"} if "hidden" in kind else {}
            for method, entries in methods.items():
                settings = LEARNERS[method].Settings
                assert set(entries) <= set(settings.names()), (preset, stream, method)
                assert all(entry["value"] in entry["grid"] for entry in entries.values())
                assert all(entry.get("source", "ours") == "ours" for entry in entries.values())
                values = {name: entry["value"] for name, entry in entries.items()}
                for name, value in values.items():
                    check_setting(settings, name, value)
                idle = settings.made(scenario, method, values).idle()
                # nor does any of them do nothing beside the others, unless it says that something is off
                assert not any(values.get(name) for name in idle), (preset, stream, method)
                resolved(model=method, dataset=stream, preset=preset, **scenario)


@pytest.mark.parametrize("dataset", ["split-mnist", "permuted-mnist", "rotated-split-mnist"])
@pytest.mark.parametrize(
    ("model", "scenario"),
    [
        *product(("samc", "er", "der", "mer", "gem"), ("task", "class", "domain")),
        *product(("icarl",), ("task", "class")),  # it learns new classes, and a domain brings none
    ],
)
def test_digits_and_permuted_pixels_are_not_mirrored(dataset, scenario, model):
    settings = resolved(model=model, dataset=dataset, preset="best", scenario=scenario)[0].settings
    elsewhere = resolved(model=model, dataset="split-tiny-imagenet", preset="best", scenario=scenario)[0].settings
    assert settings.augment == "none"
    assert settings == replace(elsewhere, augment="none")


def test_a_scenario_has_values_of_its_own_and_else_those_of_the_stream():
    best = resolved(model="er", dataset="split-cifar10", preset="best", scenario="class")[0].settings
    assert (best.batch_classes, best.codec, best.distil) == ("task", "auto", 0.0)
    in_python = LEARNERS["er"](4, SHAPE, preset="best:split-cifar10", scenario="class", backbone="mlp").settings
    assert in_python.as_dict() == best.as_dict() | {"backbone": "mlp"}
    assert resolved(model="er", dataset="split-cifar10", preset="best", scenario="domain")[0].settings.distil == 0.0
    assert resolved(model="er", dataset="split-cifar10", preset="best")[0].settings.batch_classes == "seen"
    assert resolved(model="gem", dataset="split-cifar10", preset="paper", scenario="class")[0].settings.lr == 0.03
    assert resolved(model="gem", dataset="split-cifar10", preset="paper")[0].settings.lr == 0.1


METHODS = ("finetune", "joint", "ewc", "lwf", "icarl", "gem", "agem", "er", "mer", "ebm", "eec", "samc")
# those of the paper's tables and ours next to them; a method that somebody adds need not have presets


def test_every_paper_stream_has_values_for_every_method():
    for stream in STREAMS:
        for method in METHODS:
            # SAMC's best are its own defaults
            assert preset_values("auto", stream, method) or method == "samc"
            assert preset_values("paper", stream, method)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("stream", STREAMS)
def test_a_preset_is_the_same_in_python_and_on_the_command_line(name, stream):
    """Settings only: a network of another method need not be built for this."""
    run = resolved(model=name, dataset=stream, preset="paper")[0]
    assert LEARNERS[name](4, SHAPE, preset=f"paper:{stream}", backbone="mlp").settings.as_dict() == (
        run.settings.as_dict() | {"backbone": "mlp"}
    )


def test_the_papers_samc_without_a_stream_is_that_of_split_cifar100():
    run = resolved(dataset="split-cifar100", preset="paper")[0]
    learner = samc.SAMC(4, SHAPE, preset="paper")
    assert learner.settings == run.settings
    assert learner.settings.threshold == 0.7
    assert samc.SAMC(4, SHAPE, preset="paper", threshold=0.2).settings.threshold == 0.2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: samc.SAMC(4, SHAPE, preset="papper"), "^unknown preset 'papper': did you mean 'paper'"),
        (lambda: samc.SAMC(4, SHAPE, preset=""), "^unknown preset ''"),
        (
            lambda: samc.SAMC(4, SHAPE, preset="paper:split-cifar"),
            "unknown stream of a preset 'split-cifar': did you mean",
        ),
        (
            lambda: samc.ER(4, SHAPE, preset="paper"),
            "preset 'paper' has no values for er on any stream; name one, such as",
        ),
        (
            lambda: samc.SAMC(4, SHAPE, treshold=0.5),
            r"^samc has no --treshold; did you mean --threshold\? it takes --lr",
        ),
        (lambda: samc.ER(4, SHAPE, threshold=0.5), "^er has no --threshold; it takes --lr"),
        (lambda: samc.SAMC(4, SHAPE, memory_strength=1.0), "--memory-strength does nothing with --replay er"),
    ],
)
def test_presets_and_settings_that_do_not_exist_are_one_clear_error(make, message):
    with pytest.raises(ConfigError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


# -- one home for every default and range


def outside(item, kind):
    """A number just outside of a setting's range, of its kind; None where it has none."""
    bounds = {name: value for name, value in item.metadata["bounds"].items() if value is not None}
    for name, step in (("least", -1), ("above", 0), ("most", 1), ("below", 0)):
        if name in bounds:
            return float(bounds[name] + step) if float in (get_args(kind) or (kind,)) else bounds[name] + step
    return None


RANGES = [
    (name, item.name, value)
    for name, learner in LEARNERS.items()
    for item in setting_fields(learner.Settings)
    if (value := outside(item, kinds(learner.Settings)[item.name])) is not None
]


@pytest.mark.parametrize(("method", "name", "value"), RANGES)
def test_a_range_error_has_the_same_words_from_python_and_from_the_command_line(
    method, name, value, command, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as error:
        LEARNERS[method](4, SHAPE, **{name: value})
    code, out, err = command("run", "--model", method, "--device", "cpu", flag(name), value)
    assert (code, out) == (2, "")
    assert err == f"samc: {error.value}\n"
    assert str(error.value).startswith(f"{flag(name).removeprefix('--')} is ")


@pytest.mark.parametrize("name", LEARNERS)
def test_python_and_the_flags_have_the_same_defaults(name):
    learner = LEARNERS[name]
    defaults = {item.name: item.default for item in setting_fields(learner.Settings)}
    parameters = inspect.signature(learner).parameters
    assert not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    assert {setting: parameters[setting].default for setting in learner.Settings.names()} == defaults
    assert learner.Settings().as_dict() == defaults
    config, from_preset = resolved(model=name, preset="none")
    assert (config.settings.as_dict(), from_preset) == (defaults, {})
    assert parameters["seed"].default == RunConfig.seed
    shared = {setting for setting in Terms.names() if setting in defaults}
    assert all(defaults[setting] == getattr(RunConfig, setting) for setting in shared)
    made = learner(4, SHAPE)
    assert made.settings.as_dict() == defaults
    for setting, text in described_flags(learner.Settings):
        default = defaults[setting.removeprefix("--").replace("-", "_")]
        assert text.endswith(f"  [default: {default}]") or default is None


def test_every_setting_of_every_method_is_a_flag_and_no_flag_has_a_default_of_its_own():
    from samc.cli.run import EXTRA, run

    names = {name for name, _, _ in all_settings()}
    assert names == {*RunConfig.names(), *(name for learner in LEARNERS.values() for name in learner.Settings.names())}
    parameters = inspect.signature(run).parameters
    assert set(parameters) == names | set(EXTRA)
    assert all(parameter.default is None for parameter in parameters.values())
    assert GroupedCommand.model == RunConfig.model


OTHERS = {
    ("experiments/specification.py", "Variant", "preset"): "a table's runs are the paper's unless it says otherwise",
}
# where a name is a setting's and the default is something else, and what


def literal_defaults(path):
    """Who gives which name a literal default, None and `setting(...)` aside: None says that nothing was given."""
    for node in ast.walk(ast.parse(path.read_text())):
        pairs = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            places = [*node.args.posonlyargs, *node.args.args]
            pairs = [*zip(places[len(places) - len(node.args.defaults) :], node.args.defaults, strict=True)]
            pairs += zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            pairs = [(place.arg, default) for place, default in pairs]
        elif isinstance(node, ast.ClassDef):
            lines = [line for line in node.body if isinstance(line, ast.AnnAssign | ast.Assign)]
            for line in lines:
                targets = [line.target] if isinstance(line, ast.AnnAssign) else line.targets
                pairs += [(target.id, line.value) for target in targets if isinstance(target, ast.Name)]
        for name, default in pairs:
            try:
                value = default and ast.literal_eval(default)
            except ValueError:  # a name, or a call such as setting(...)
                continue
            if value is not None:
                yield getattr(node, "name", "lambda"), name, value


def test_no_default_of_a_setting_stands_twice():
    names, seen = {name for name, _, _ in all_settings()}, set()
    for path in sorted(ROOT.rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        for owner, name, value in literal_defaults(path):
            if name == "seed":  # streams, heads and whole learners can be made alone; all seeds begin at the same
                assert value == RunConfig.seed, (where, owner)
            elif name in names:
                assert (where, owner, name) in OTHERS, f"{where}: {owner} has a default of its own for {name}: {value}"
                seen.add((where, owner, name))
    assert seen == set(OTHERS)


def test_the_search_for_defaults_finds_them(tmp_path):
    path = tmp_path / "source.py"
    path.write_text(
        "def one(a, lr=0.1, *, threshold=0.5, codec=None, keeps=Terms.keeps): ...\n"
        "class Two:\n    replay: str = 'er'\n    lr: float = setting(0.1, 'step')\n    def three(self, seed=-1): ...\n"
        "four = lambda completion='zero': completion\n"
    )
    found = {("one", "lr", 0.1), ("one", "threshold", 0.5), ("Two", "replay", "er"), ("three", "seed", -1)}
    assert set(literal_defaults(path)) == found | {("lambda", "completion", "zero")}


def test_no_range_of_a_setting_stands_twice():
    """A check elsewhere would have words of its own; `check_setting` has those of the setting."""
    names = "|".join(flag(name).removeprefix("--") for name, _, _ in all_settings())
    said = re.compile(rf"(?:--)?(?:{names}) is (?:at least|at most|above|below|in [\[(]|a number|a whole number)")
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not said.match(node.value), f"{path.relative_to(ROOT)}: {node.value!r}"


# -- what Python's help shows


@pytest.mark.parametrize("name", LEARNERS)
def test_help_shows_every_setting_with_its_default(name):
    learner = LEARNERS[name]
    shown = pydoc.render_doc(learner, renderer=pydoc.plaintext)
    assert "**" not in shown
    for item in setting_fields(learner.Settings):
        assert re.search(rf"\b{item.name}: [^=]* = {re.escape(repr(item.default))}[,)]", shown), item.name
        assert re.search(rf"{re.escape(f'{item.name} = {item.default!r}')} +{re.escape(item.metadata['help'])}", shown)


def test_a_method_of_ones_own_has_its_settings_in_its_signature():
    class Own(NetworkLearner):
        """Learns nothing."""

    assert inspect.signature(Own).parameters["lr"].default == NetworkLearner.Settings.lr
    assert inspect.signature(NetworkLearner).parameters["lr"].default == NetworkLearner.Settings.lr
    assert "lr = 0.1" in (Own.__doc__ or "")
    with pytest.raises(ConfigError, match="own has no --threshold; it takes --lr"):
        Own(4, SHAPE, threshold=0.5)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("samples_per_task", 0, "samples-per-task is at least 1, got 0; leave it out to use every image"),
        ("batch_size", 2.5, "batch-size is a whole number, got 2.5"),
        ("batch_size", True, "batch-size is a whole number, got True"),
        ("memory_bytes", 5, "memory-bytes is text, got 5"),
        ("lr", "fast", "lr is a number, got 'fast'; the paper uses 0.1"),
        ("accounting", 1, "unknown accounting '1'"),
    ],
)
def test_a_setting_alone_is_checked_as_in_a_config(name, value, message):
    kind = RunConfig if name in RunConfig.names() else NetworkLearner.Settings
    with pytest.raises(ConfigError, match=message):
        check_setting(kind, name, value)
    check_setting(kind, name, getattr(kind, name))
