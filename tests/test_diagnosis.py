"""The diagnosis: known answers on a linear network, a run that does not notice it, and the command line."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import samc
from samc.engine import Batch, descend, gradient, trainable
from samc.errors import ConfigError
from samc.experiments.claims import examine_memory, examine_step, output_bounds
from samc.experiments.diagnosis import Diagnosis, evenly_spread
from samc.experiments.items import ITEMS
from samc.health import LossMonitor
from samc.models.classifier import Classifier, Features
from samc.models.heads import Heads
from samc.protocol import Watcher, run
from samc.record import RunRecord
from samc.report.claims_table import diagnosis_table
from samc.report.numbers import format_psnr
from toys import PLAIN, PLAIN_CONE, coloured_squares

RESULTS = Path(samc.__file__).parents[2] / "results"


PAPER = {"replay": "gem", "codec": "coo", "threshold": 0.7, "completion": "telea+autoencoder", "lr": 0.1, **PLAIN_CONE}
# in which kept pixels come back exactly


def linear():
    """Two classes, logits W x; W starts at zero, where both have probability one half."""
    heads = Heads(4, 2)
    for task in (0, 1):
        heads.assign(task, (0, 1))
    nn.init.zeros_(heads.linear.weight)
    nn.init.zeros_(heads.linear.bias).requires_grad_(False)
    return Classifier(nn.Flatten(), heads, Features("vector", 4, (1, 1)))


def batch(values, label, task):
    return Batch(torch.tensor(values).view(1, 1, 2, 2), torch.tensor([label]), task)


def one_step(past, truth, lr=0.5):
    before, now = linear(), batch([1.0, 0.0, 0.0, 0.0], 0, 1)
    after = linear()
    descend(trainable(after), gradient(before, [now])[0], lr)
    (claims,) = examine_step(before, after, lr=lr, number=3, batch=now, completed=[past], truths={0: truth})
    return claims


def test_a_memory_that_agrees_with_the_step():
    # (p - e_y) x' = ±(1/2, -1/2) x': the product with the batch's own gradient is x·x_k / 2 for equal labels
    past = batch([0.6, 0.8, 0.0, 0.0], 0, 0)
    claims = one_step(past, past)
    assert (claims.task, claims.step, claims.past_task) == (1, 3, 0)
    assert claims.product_applied == pytest.approx(0.3)
    assert claims.product_completed == pytest.approx(0.3)
    assert claims.product_true == pytest.approx(0.3)
    assert claims.reference_cosine == pytest.approx(1)
    # W moves by 0.5 · 1/2 on the first value: the logits of the memory's image become ±0.25 · 0.6
    assert claims.loss_before == pytest.approx(math.log(2))
    assert claims.loss_after == pytest.approx(math.log(1 + math.exp(-0.3)))
    assert claims.loss_after_short_step == pytest.approx(math.log(1 + math.exp(-0.003)))
    assert claims.acute
    assert claims.fell
    assert claims.fell_after_short_step
    assert claims.signs_agree


def test_a_memory_that_objects_and_a_completion_that_misleads():
    claims = one_step(batch([0.6, 0.8, 0.0, 0.0], 1, 0), batch([-0.6, 0.8, 0.0, 0.0], 1, 0))
    assert claims.product_applied == pytest.approx(-0.3)
    assert claims.product_true == pytest.approx(0.3)
    assert claims.reference_cosine == pytest.approx(0.28)
    assert claims.loss_after == pytest.approx(math.log(1 + math.exp(0.3)))
    assert not claims.acute
    assert not claims.fell
    assert not claims.fell_after_short_step
    assert not claims.signs_agree


def test_the_bound_of_lemma_2():
    model = linear()
    with torch.no_grad():
        model.heads.linear.weight[1] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    truth = Batch(torch.full((2, 1, 2, 2), 0.5), torch.tensor([1, 0]), 0)
    completed = truth.x.clone()
    completed[:, 0, 1] = torch.tensor([0.7, 0.1])
    np.testing.assert_allclose(output_bounds(truth.x, completed, 0.7), 0.7 * 0.4 * 2)  # √d is 2
    mask = np.array([[[True, True], [False, False]]] * 2)
    claims = examine_memory(model, tasks_learnt=1, truth=truth, completed=completed, masks=mask, threshold=0.7)
    # label 1: |3·0.2 - 4·0.4| = 1 is above 0.56; label 0 has no weights and so no error
    assert claims.output_error == pytest.approx(0.5)
    assert claims.output_bound == pytest.approx(0.56)
    assert claims.bound_holds == 0.5
    assert (claims.squared_error_inside, claims.psnr_inside) == (0, math.inf)
    assert claims.squared_error_outside == pytest.approx(0.1)
    assert claims.psnr_outside == pytest.approx(10)
    assert claims.ssim_inside > claims.ssim_outside


def test_steps_are_evenly_spread():
    assert evenly_spread(9, 5) == {0, 2, 4, 6, 8}
    assert evenly_spread(3, 5) == {0, 1, 2}
    assert evenly_spread(1, 5) == {0}


class End(Watcher):
    """Keeps the learner's state after every task."""

    def __init__(self):
        self.states = []

    def begin(self, stream, learner, steps):
        self.learner = learner

    def evaluated(self, tasks_learnt, accuracies):
        self.states.append(self.learner.state_dict())


def small_run(diagnosis=None, **settings):
    stream, end = coloured_squares(per_class=30), End()
    learner = samc.SAMC(6, (3, 12, 12), **PAPER | {"autoencoder_steps": 3, "buffer_size": 3} | settings)
    record = run(stream, learner, watchers=[diagnosis, end] if diagnosis else [end])
    return record, end.states, torch.get_rng_state()


def same(first, second):
    """Equal to the last bit, however deep."""
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        PLAIN | {"replay": "er", "codec": "cam"},
        {"replay": "agem", "codec": "gist:thumb:4+cam"},
        {"memory_bytes": "4KB", "completion": "zero"},
    ],
    ids=str,
)
def test_a_run_does_not_notice_that_it_is_diagnosed(settings):
    diagnosis = Diagnosis()
    plain, states, random = small_run(**settings)
    watched, watched_states, watched_random = small_run(diagnosis, **settings)
    assert {**vars(plain), "seconds": None} == {**vars(watched), "seconds": None}
    assert same(states, watched_states)
    assert torch.equal(random, watched_random)
    report = diagnosis.report()
    json.dumps(report, allow_nan=False)
    assert [(c["task"], c["step"], c["past_task"]) for c in report["steps"]] == [
        *((1, step, 0) for step in (0, 1, 2, 4, 5)),
        *((2, step, past) for step in (0, 1, 2, 4, 5) for past in (0, 1)),
    ]
    assert [(c["tasks_learnt"], c["task"]) for c in report["memories"]] == [
        (1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)
    ]  # fmt: skip
    assert [row["measured_steps"] for row in report["tasks"]] == [10, 5, 0]
    assert [row["images"] for row in report["tasks"]] == watched.memory["images_per_task"]
    # a lossless codec gives kept pixels back exactly: the images kept aside are those that are remembered
    assert {c["squared_error_inside"] for c in report["memories"]} == {0}
    assert all(c["squared_error_outside"] > 0 for c in report["memories"])
    assert all(c["loss_before"] != c["loss_after"] for c in report["steps"])
    assert "kept aside for this diagnosis only" in report["notes"]["true images"]
    # 12 x 12 images of three bytes a pixel, as many as the memory ever held
    assert report["true_bytes_aside"] % 432 == 0
    assert report["true_bytes_aside"] >= 432 * sum(watched.memory["images_per_task"])


@pytest.mark.slow
def test_where_nothing_is_dropped_the_claims_are_exact():
    diagnosis = Diagnosis()
    small_run(diagnosis, codec="raw", completion="zero")
    report = diagnosis.report()
    assert all(c["product_completed"] == c["product_true"] for c in report["steps"])
    assert all(c["reference_cosine"] == pytest.approx(1) for c in report["steps"])
    for row in report["tasks"]:
        assert (row["output_error"], row["output_bound"], row["bound_holds"]) == (0, 0, 1)
        assert (row["squared_error_inside"], row["squared_error_outside"]) == (0, None)
        assert (row["psnr_inside"], row["ssim_outside"]) == (None, None)
        assert row["ssim_inside"] == pytest.approx(1)


@pytest.mark.slow
def test_a_short_enough_step_obeys_lemma_1():
    diagnosis = Diagnosis()
    small_run(diagnosis, lr=1e-5)
    acute = [c for c in diagnosis.steps if c.acute]
    assert len(acute) > 5
    for c in acute:  # to first order the loss changes by -α⟨g̃, g̃_k⟩
        assert c.loss_after - c.loss_before == pytest.approx(-1e-5 * c.product_applied, rel=0.1, abs=1e-6)


@pytest.mark.slow
def test_a_diverged_network_still_leaves_a_diagnosis(monkeypatch):
    """The run would stop here; between two of its looks on a GPU it has not yet."""
    for name in ("step", "end_task"):
        monkeypatch.setattr(LossMonitor, name, lambda self, *_: None)
    diagnosis = Diagnosis()
    small_run(diagnosis, lr=1e30)
    report = diagnosis.report()
    json.dumps(report, allow_nan=False)
    assert report["steps"][-1]["loss_after"] is None


def test_it_is_for_samc_and_for_runs_that_it_saw_from_the_start():
    stream = coloured_squares(per_class=10)
    with pytest.raises(ConfigError, match="--diagnose measures completed memories, gem has none"):
        run(stream, samc.GEM(6, (3, 12, 12)), watchers=[Diagnosis()])
    learner = samc.SAMC(6, (3, 12, 12), autoencoder_steps=0, **PLAIN)
    run(stream, learner)
    with pytest.raises(ConfigError, match="begin with an empty memory"):
        run(stream, learner, watchers=[Diagnosis()])


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"keeps": "sample"}, "--keeps"),
        ({"average": 0.9}, "--average"),
        ({"augment": "flip"}, "--augment"),
        ({"average": 0.9, "distil": 0.5}, "--average, --distil"),
        ({"replay_size": 4}, "--replay-size"),
        ({"replay_weight": 1.0}, "--replay-weight"),
        ({"replay_current": True}, "--replay-current"),
        ({"steps_per_batch": 2}, "--steps-per-batch"),
        ({"replay": "gem", "replay_size": 4}, "--replay-size"),
    ],
)
def test_a_memory_that_is_no_queue_or_a_step_that_is_not_plain_is_refused(settings, named):
    given = (PLAIN_CONE if "replay" in settings else PLAIN) | settings
    stream, learner = coloured_squares(per_class=10), samc.SAMC(6, (3, 12, 12), **given)
    with pytest.raises(ConfigError) as error:
        run(stream, learner, watchers=[Diagnosis()])
    claimed = "--diagnose measures plain steps and a memory of the newest images, which"
    assert str(error.value) == f"{claimed} {named} change; use --preset paper without them, or leave it out"
    assert learner.memory.nbytes == 0


def test_what_does_nothing_is_no_reason_to_refuse():
    """A default that is idle beside the others, as it may be under a preset."""
    learner = samc.SAMC(6, (3, 12, 12), replay="gem", **PLAIN_CONE)
    assert learner.settings.replay_current
    assert learner.settings.replay_weight
    Diagnosis().begin(coloured_squares(per_class=10), learner, [1])


def flags(settings):
    """As the command line takes them."""
    words = []
    for name, value in settings.items():
        option = name.replace("_", "-")
        words += [f"--{option}" if value else f"--no-{option}"] if isinstance(value, bool) else [f"--{option}", value]
    return words


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A folder with a stream of two small tasks, and the flags to run it."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).integers(0, 256, (60, 10, 10, 3), dtype=np.uint8)
    np.savez("tiny.npz", x=x, y=np.arange(60) % 4)
    return ("run", "--dataset", "npz:tiny.npz", "--n-tasks", 2, "--device", "cpu")


@pytest.mark.slow
def test_from_the_command_line(tiny, tmp_path, command):
    settings = (*flags(PAPER), "--autoencoder-steps", 2, "--buffer-size", 2)
    code, out, err = command(*tiny, *settings, "--diagnose", "--out", "with")
    assert (code, err) == (0, "")
    assert "diagnosis (true images kept aside for it)" in out
    assert "exact" in out
    assert command(*tiny, *settings, "--out", "without")[0] == 0
    watched, plain = (json.loads((tmp_path / name / "record.json").read_text()) for name in ("with", "without"))
    diagnosis = watched.pop("diagnosis")
    del watched["seconds"], plain["seconds"]
    assert watched == plain
    assert [row["task"] for row in diagnosis["tasks"]] == [0, 1]
    assert RunRecord.load(tmp_path / "with").diagnosis == diagnosis
    assert RunRecord.load(tmp_path / "without").diagnosis is None


def test_another_model_is_refused_in_one_line(tiny, tmp_path, command):
    code, _, err = command(*tiny, "--model", "gem", "--diagnose", "--out", "gem")
    assert code == 2
    assert err == "samc: --diagnose measures completed memories, gem has none; use --model samc or leave it out\n"
    assert not (tmp_path / "gem").exists()


def test_an_average_is_refused_in_one_line_with_the_remedy(tiny, tmp_path, command):
    code, _, err = command(*tiny, *flags(PLAIN | {"average": 0.9}), "--diagnose", "--out", "average")
    assert code == 2
    assert err.count("\n") == 1
    assert "--average change; use --preset paper without them" in err
    assert not (tmp_path / "average").exists()


def test_records_from_before_still_load():
    paths = sorted(RESULTS.rglob("record.json"))
    assert paths
    (theory,) = (RESULTS / "paper" / job.name for job in ITEMS["theory"].jobs().values())
    diagnosed = [path.parent.parent.name == "diagnosis" or path.parent == theory for path in paths]
    assert [RunRecord.load(path).diagnosis is not None for path in paths] == diagnosed


def test_a_diagnosis_as_a_table():
    task = dict.fromkeys(("fell_when_acute", "fell_when_acute_after_short_step", "signs_agree", "bound_holds"))
    errors = {"squared_error_inside": 0.0, "psnr_inside": None, "squared_error_outside": 0.1, "psnr_outside": 10.0}
    table = diagnosis_table({"tasks": [{"task": 0, "acute": 0.756, **task, **errors}]})
    assert table.cells() == [["1", "76", "–", "–", "–", "–", "exact", "10.0"]]
    assert format_psnr(None, None) == "–"
