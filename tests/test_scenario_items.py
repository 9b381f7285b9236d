"""The items of class- and domain-incremental learning: equal bytes in every row, and a table for each budget."""

from dataclasses import replace

import pytest
import torch

import samc
from record_makers import of_job
from samc.errors import ConfigError, DataError
from samc.experiments.items import ITEMS, check_streams
from samc.experiments.jobs import make_job
from samc.experiments.record_store import RecordStore, is_of_job
from samc.experiments.scenarios import BEST
from samc.memory import codec_for
from samc.memory.budget import parse_budget
from samc.protocol import run
from samc.report.missing import missing_table
from samc.report.scenario_table import scenario_tables
from toys import coloured_squares

CLASS, DOMAIN = ITEMS["class-incremental"], ITEMS["domain-incremental"]


@pytest.mark.parametrize(
    ("item", "scenario", "stream", "budgets"),
    [
        (CLASS, "class", "split-cifar100", {614_600, 3_073_000}),  # the bytes of 200 and of 1,000 raw images
        (CLASS, "class", "split-cifar10", {614_600}),
        (CLASS, "class", "split-mini-imagenet", {200 * 21_169}),
        (DOMAIN, "domain", "split-cifar100-domains", {614_600}),
        (DOMAIN, "domain", "rotated-split-cifar10", {614_600}),
    ],
)
def test_every_row_has_the_same_bytes_for_all_tasks_together(item, scenario, stream, budgets):
    found = {}
    for (_, variant, _), job in item.jobs([stream], seeds=[0]).items():
        budget = parse_budget(job.config.memory_bytes)
        assert not budget.per_task
        assert job.config.settings.scenario == scenario
        assert getattr(job.config.settings, "memory_bytes", job.config.memory_bytes) == job.config.memory_bytes
        found.setdefault(budget.total, []).append(variant.line)
    assert found.keys() == budgets
    first, *others = found.values()
    assert first[0] == BEST
    assert all(lines == first for lines in others)


def test_the_rivals_are_those_of_the_issue():
    of = {variant.line: job.config.settings for (_, variant, _), job in CLASS.jobs(["split-cifar10"], [0]).items()}
    assert {"er", "er-ace", "der++", "icarl", "gem", BEST} <= of.keys()
    assert (of["er-ace"].batch_classes, of["er-ace"].replay_weight, of["er-ace"].replay_current) == ("batch", 1.0, True)
    assert (of["er"].batch_classes, of["er"].codec) == ("seen", "raw")
    assert (of[BEST].batch_classes, of[BEST].codec, of[BEST].replay_size) == ("task", "auto", 60)


@pytest.mark.parametrize("item", [CLASS, DOMAIN])
def test_no_row_is_there_twice_in_a_quick_run(item):
    jobs = item.jobs(seeds=[0], quick=True)
    assert len({job.name for job in jobs.values()}) == len({variant.line for _, variant, _ in jobs})


@pytest.mark.parametrize("scenario", ["class", "domain"])
def test_one_row_is_for_samc_and_er_with_the_same_preset(scenario):
    """Where whole pictures are stored there is no saliency, and the same seed makes the same run."""
    same = {"scenario": scenario, "preset": "best", "memory_bytes": "614600", "dataset": "split-cifar100", "seed": 1}
    ours, er = (make_job({**same, "model": model}).config for model in ("samc", "er"))
    parts = {name: value for name, value in er.settings.as_dict().items() if name != "replay_one_by_one"}
    assert parts.items() <= ours.settings.as_dict().items()
    shape, budget = (3, 32, 32), parse_budget("614600")
    assert codec_for(budget, shape, salient=True) == codec_for(budget, shape, salient=False) == "jpeg:20"


def test_samc_and_er_with_the_same_preset_are_the_same_run():
    runs = []
    for method in (samc.SAMC, samc.ER):
        learner = method(6, (3, 12, 12), scenario="class", preset="best", memory_bytes="100KB", codec="jpeg:20", seed=1)
        runs.append((run(coloured_squares(per_class=10), learner).accuracy_matrix, learner.model.state_dict()))
    (ours, weights), (ers, er_weights) = runs
    assert ours == ers
    assert all(torch.equal(weights[name], er_weights[name]) for name in weights if name != "heads._extra_state")


def test_a_record_under_a_budget_for_all_tasks_is_found_by_what_auto_stood_for(tmp_path):
    job = next(iter(CLASS.jobs(["split-cifar100"], seeds=[0]).values()))
    assert job.config.settings.codec == "auto"
    made = of_job(job)
    memory = made.memory | {"codec": "jpeg:20", "budget_bytes": 614_600 // 20}  # a task's share at the end
    fingerprint = made.fingerprint | {"image_shape": [3, 32, 32]}
    replace(made, memory=memory, fingerprint=fingerprint).save(tmp_path / "run")
    store = RecordStore(tmp_path)
    assert store.find(job) is not None
    of_other = replace(made, memory=memory | {"codec": "jpeg:10"}, fingerprint=fingerprint)
    assert not is_of_job(of_other, job)


def rates(item, stream):
    return {variant.line: job.config.settings.lr for (_, variant, _), job in item.jobs([stream], seeds=[0]).items()}


@pytest.mark.parametrize(
    ("item", "stream"),
    [(CLASS, "split-cifar100"), (CLASS, "split-mini-imagenet"), (DOMAIN, "split-cifar100-domains")],
)
def test_no_rate_that_was_chosen_for_a_head_per_task_is_taken_over(item, stream):
    """The paper's is 1 for finetune, EWC and iCaRL; rivals without one of their own have that of the others."""
    searched = {"gem": 0.03, "icarl": 0.03} if item is CLASS else {}
    found = {line: lr for line, lr in rates(item, stream).items() if line != BEST}
    assert found == dict.fromkeys(found, 0.1) | searched


def test_a_table_for_each_budget_with_the_best_first():
    jobs = CLASS.jobs(["split-cifar100"], seeds=[0, 1, 2])
    results = {}
    for key, job in jobs.items():
        _, variant, seed = key
        acc = 0.3 + (0.1 if variant.at > 1e6 else 0) + (0.05 if variant.line == BEST else 0) + seed / 1000
        made = of_job(job, acc)
        terms = {"budget_images": None, "memory_bytes": job.config.memory_bytes}
        results[key] = replace(made, fingerprint=made.fingerprint | terms)
    small, large = scenario_tables(CLASS, results)
    assert small.title == "class-incremental, split-cifar100, 614,600 bytes"
    assert large.title == "class-incremental, split-cifar100, 3,073,000 bytes"
    for table, best in ((small, 35.1), (large, 45.1)):
        rows = {row.values["method"]: row for row in table.rows}
        assert rows[BEST].values["acc_mean"] == pytest.approx(best)
        assert rows[BEST].bold == {"acc_mean"}
        assert rows["gem"].values["acc_mean"] == pytest.approx(best - 5)
        assert rows["gem"].values["p_against_best"] < 0.001
        assert rows[BEST].values["p_against_best"] is None


def test_runs_in_another_scenario_do_not_share_a_table():
    jobs = CLASS.jobs(["split-cifar10"], seeds=[0])
    results = {key: of_job(job) for key, job in jobs.items()}
    last = list(results)[-1]
    results[last] = replace(results[last], fingerprint=results[last].fingerprint | {"scenario": "class"})
    with pytest.raises(DataError, match="scenario is 'absent' in the first, 'class' in the second"):
        scenario_tables(CLASS, results)


def test_what_is_missing_has_its_command():
    rows = missing_table({"domain-incremental": dict.fromkeys(DOMAIN.jobs(seeds=[0]))}).rows
    assert [row.values["command"] for row in rows] == [
        "`samc reproduce domain-incremental --datasets split-cifar100-domains`",
        "`samc reproduce domain-incremental --datasets rotated-split-cifar10`",
    ]


def test_streams_of_domains_are_known():
    assert check_streams(["rotated-split-cifar10"]) == ("rotated-split-cifar10",)
    with pytest.raises(ConfigError, match="did you mean 'rotated-split-cifar10'"):
        check_streams(["rotated-cifar10"])
