"""What SAMC's best preset is worth: the right runs, the right differences, and a figure that bears gaps."""

import csv
import io
from dataclasses import replace

import pytest
from PIL import Image

from record_makers import of_job
from samc.experiments.items import ALL, BEST, BY_NAME, ITEMS
from samc.experiments.jobs import Outcome, make_job
from samc.experiments.record_store import RecordStore
from samc.experiments.worth import (
    ALL_PARTS,
    AVERAGE,
    BUDGETS,
    COSTLY,
    CURRENT,
    FLIPS,
    HELD,
    NO_PART,
    RAW_IMAGE,
    REPLAY,
    SALIENCY_BUDGETS,
    SMOOTHED,
    USES_OF_SALIENCY,
)
from samc.learners import configure
from samc.memory import Budget, codec_for
from samc.report.reproduction import publish
from samc.report.results_page import results_page

OFF, ON = ({name: value for name, value in parts.items() if name != "keeps"} for parts in (NO_PART, ALL_PARTS))
TEN_IMAGES = 10 * RAW_IMAGE
REPLAYED = f"{REPLAY['replay_size']} replayed, weight {REPLAY['replay_weight']:g}"


def first_seeds(name, **part):
    """The settings of an item's jobs by label."""
    return {
        variant.label: job.config.as_dict() for (_, variant, seed), job in ITEMS[name].jobs(**part).items() if not seed
    }


def made(name, acc):
    """An item's records, with the accuracy that `acc` gives for a variant and a seed; None is missing."""
    results = {}
    for key, job in ITEMS[name].jobs().items():
        value = acc(key[1], key[2])
        results[key] = None if value is None else of_job(job, value, seconds={"total": 60.0})
    return ITEMS[name], results


def table(path):
    lines = [line for line in path.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_they_are_asked_for_by_name():
    scenarios = {"class-incremental", "domain-incremental"}
    assert set(BY_NAME) == {"variants", "parts", "released", "frontier", "saliency", "grid"} | scenarios
    assert not set(ALL) & set(BY_NAME)


# parts


@pytest.mark.parametrize("quick", [False, True])
def test_every_part_is_said_in_every_row(quick):
    jobs = first_seeds("parts", quick=quick)
    parts = {label: {name: config[name] for name in OFF} for label, config in jobs.items()}
    on = {label: {name for name in OFF if values[name] != OFF[name]} for label, values in parts.items()}
    assert not any(OFF[name] == ON[name] for name in OFF)
    assert on == {
        "no part": set(),
        "only the average": {*AVERAGE},
        "only flips": {*FLIPS},
        f"only {REPLAYED}": {*REPLAY},
        "only the current task's memory": {*CURRENT},
        "only old heads held, and the average that they are held to": {*HELD, *AVERAGE},
        "all parts": set(ON),
        "all but the average, and old heads held, which needs it": set(ON) - {*AVERAGE, *HELD},
        "all but flips": set(ON) - {*FLIPS},
        f"all but {REPLAYED}": set(ON) - {*REPLAY},
        "all but the current task's memory": set(ON) - {*CURRENT},
        "all but old heads held": set(ON) - {*HELD},
    }
    for label, values in parts.items():
        assert {name: values[name] for name in on[label]} == {name: ON[name] for name in on[label]}
    assert {(config["keeps"], config["replay"], config["model"]) for config in jobs.values()} == {
        ("sample", "er", "samc")
    }


def test_parts_share_one_codec_and_the_best_presets_terms():
    best = make_job(BEST.run_settings("split-cifar100", 0, False)).config.as_dict()
    for config in first_seeds("parts").values():
        changed = {name for name, value in config.items() if value != best[name]}
        assert changed <= {*OFF, "keeps", "codec"}
        assert config["codec"] == SMOOTHED
    assert len(ITEMS["parts"].jobs()) == 12 * 5


def test_a_part_is_measured_seed_by_seed(tmp_path):
    gains = {"only flips": (0.01, 0.02, 0.03, 0.04, 0.05), "all but flips": (0.18, None, 0.2, None, 0.19)}
    gains["all but old heads held"] = (0.18, 0.2, None, None, None)

    def acc(variant, seed):
        base = 0.4 + 0.05 * seed
        if variant.label in gains:
            gain = gains[variant.label][seed]
            return None if gain is None else base + gain
        return {"no part": base, "all parts": base + 0.2}.get(variant.label)

    publish(*made("parts", acc), tmp_path, {})
    header, _, *rows = table(tmp_path / "parts.md")
    rows = {row[0]: row for row in rows}
    assert header[4:] == [
        *(f"difference: {name}" for name in ("from", "pairs", "mean", "95 % interval", "p")),
        "seconds",
    ]
    assert rows["no part"][1:] == ["5", "50.00 ± 7.91", "−10.00 ± 0.00", "–", "–", "–", "–", "–", "60"]
    # 1 to 5 points: mean 3, deviation √2.5, and 2.7764·√2.5/√5 = 1.9632; t = 3/√0.5 with 4 degrees
    assert rows["only flips"][4:] == ["no part", "5", "+3.00", "+1.04 to +4.96", "0.013", "60"]
    # −2, 0 and −1 points; t = −√3 with 2 degrees
    assert rows["all but flips"][1] == "3 of 5"
    assert rows["all but flips"][4:9] == ["all parts", "3", "−1.00", "−3.48 to +1.48", "0.225"]
    # two pairs: no interval, no test
    assert rows["all but old heads held"][4:9] == ["all parts", "2", "−1.00", "–", "–"]
    assert rows["all parts"][4:8] == ["no part", "5", "+20.00", "+20.00 to +20.00"]
    assert rows["only the average"][1:] == ["not run", "–", "–", "no part", "–", "–", "–", "–", "–"]


# the rivals


def test_rivals_get_every_part_that_they_can_use_and_the_same_memory():
    jobs = {
        variant.model: job.config.as_dict()
        for (stream, variant, seed), job in ITEMS["equal-bytes"].jobs(["split-cifar100"], [0]).items()
        if variant.label.endswith(", with the parts")
    }
    best = make_job(BEST.run_settings("split-cifar100", 0, False)).config.as_dict()
    assert set(jobs) == {"er", "der", "mer", "icarl", "gem"}
    for model, config in jobs.items():
        idle = configure({"model": model})[0].settings.idle()
        for name in {*ON, "codec"} & set(config) - set(idle):
            assert config[name] == best[name], (model, name)
        assert ON["replay_size"] == config["replay_size"]


# the frontier


def test_lines_begin_where_an_image_fits_and_end_where_they_cost_too_much():
    budgets = {}
    for variant in ITEMS["frontier"].variants("split-cifar100"):
        budgets.setdefault(variant.line, []).append(variant.at)
    every = list(BUDGETS)
    one_image = [at for at in every if at >= RAW_IMAGE]
    cheap = [at for at in one_image if at <= COSTLY]
    assert len(every) > len(one_image) > len(cheap) > 0
    assert budgets == {
        "SAMC, best": every,
        "ER, small JPEGs, with the parts": every,
        "ER, small JPEGs": every,
        "ER, raw images, with the parts": one_image,
        "ER, raw images": one_image,
        "GEM, raw images": cheap,
        "SAMC from the stream alone, in true bytes": cheap,
        "joint: every image kept": [None],
        "finetune, lr 0.1: no memory": [None],
    }
    assert {seed for _, _, seed in ITEMS["frontier"].jobs()} == {0, 1, 2}


def test_the_runs_of_the_frontier():
    jobs = first_seeds("frontier")
    least, most = min(BUDGETS), max(BUDGETS)
    small, large = f"ER, small JPEGs, with the parts, {least:,} bytes", f"ER, raw images, {most:,} bytes"
    assert {name: jobs[small][name] for name in ON} == ON
    assert (jobs[small]["codec"], jobs[small]["memory_bytes"], jobs[small]["keeps"]) == (
        "auto",
        f"{least}/task",
        "sample",
    )
    assert {name: jobs[large][name] for name in OFF} == OFF
    assert (jobs[large]["codec"], jobs[large]["memory_bytes"]) == ("raw", f"{most}/task")
    best = make_job(BEST.run_settings("split-cifar100", 0, False)).config.as_dict()
    for label, config in jobs.items():
        if label.startswith("SAMC, best"):
            assert {name for name in best if config[name] != best[name]} <= {"memory_bytes"}
    assert [jobs[label]["lr"] for label in ("joint: every image kept", "finetune, lr 0.1: no memory")] == [0.1, 0.1]
    assert {config["accounting"] for config in jobs.values()} == {"bytes"}


def test_ten_raw_images_are_the_runs_of_the_other_tables():
    names = {job.name for item in ("table1", "equal-bytes") for job in ITEMS[item].jobs(["split-cifar100"]).values()}
    jobs = {variant.label: job.name for (_, variant, seed), job in ITEMS["frontier"].jobs().items() if not seed}
    for line in ("GEM, raw images", "ER, raw images", "SAMC from the stream alone, in true bytes"):
        assert jobs[f"{line}, {TEN_IMAGES:,} bytes"] in names
    assert jobs[f"SAMC, best, {TEN_IMAGES:,} bytes"] in names


def test_the_frontier_is_drawn_and_told_with_gaps(tmp_path):
    every = list(BUDGETS)
    second, one_image = every[1], [at for at in every if at >= RAW_IMAGE]

    def acc(variant, seed):
        if variant.label == f"SAMC, best, {second:,} bytes" or variant.line == "GEM, raw images":
            return None
        return None if variant.label == f"ER, raw images, {one_image[0]:,} bytes" and seed else 0.5 + 0.01 * seed

    item, results = made("frontier", acc)
    paths = publish(item, results, tmp_path, {})
    assert [path.name for path in paths] == [f"frontier.{kind}" for kind in ("png", "svg", "csv", "md", "tex")]
    with Image.open(paths[0]) as picture:
        assert picture.width >= 900
    svg = (tmp_path / "frontier.svg").read_text()
    assert "SAMC, best" in svg
    assert "GEM, raw images" not in svg  # no run, no line
    rows = {row[0]: row[1:] for row in table(tmp_path / "frontier.md")}
    assert rows["SAMC, best"] == ["51.00 ± 1.00", "not run", *["51.00 ± 1.00"] * (len(every) - 2), "–"]
    gem = ["not run" if RAW_IMAGE <= at <= COSTLY else "–" for at in every]
    assert rows["GEM, raw images"] == [*gem, "–"]
    assert rows["ER, raw images"][every.index(one_image[0])] == "50.00 (1 of 3)"
    assert rows["joint: every image kept"] == ["–"] * len(every) + ["51.00 ± 1.00"]
    points = list(csv.DictReader(io.StringIO((tmp_path / "frontier.csv").read_text())))
    assert len(points) == len(item.variants("split-cifar100"))
    assert [path.name for path in publish(item, dict.fromkeys(results), tmp_path / "none", {})] == [
        "frontier.csv", "frontier.md", "frontier.tex"
    ]  # fmt: skip


def test_the_page_shows_figure_and_table(tmp_path, monkeypatch):
    monkeypatch.setattr("samc.report.results_page.ITEMS", {"frontier": ITEMS["frontier"]})
    store = RecordStore(tmp_path)
    job = next(iter(ITEMS["frontier"].jobs(models=["joint"]).values()))
    store.keep(job, Outcome(of_job(job, 0.7)))
    assert "frontier.png has not been drawn" in results_page(store)
    (tmp_path / "frontier.png").touch()
    page = results_page(store, link="there/")
    assert page.index("![ACC by bytes per task](there/frontier.png)") < page.index("### frontier, split-cifar100")
    assert f"| joint: every image kept | {'– | ' * len(BUDGETS)}70.00 (1 of 3) |" in page


# saliency


def test_saliency_is_all_that_differs_from_plain_jpeg():
    jobs = first_seeds("saliency")
    assert len(ITEMS["saliency"].jobs()) == (1 + len(USES_OF_SALIENCY)) * len(SALIENCY_BUDGETS) * 5
    for variant in ITEMS["saliency"].variants("split-cifar100"):
        if variant.against:
            ours, plain = jobs[variant.label], jobs[variant.against]
            assert {name for name in ours if ours[name] != plain[name]} == {"codec"}
            assert plain["codec"] == codec_for(Budget(int(variant.at)), (3, 32, 32), salient=False)
            assert ours["codec"] == USES_OF_SALIENCY[variant.line].format(plain=plain["codec"])


def test_a_record_of_a_run_with_codec_auto_is_known_by_what_that_stood_for(tmp_path):
    """What auto stands for may change; a record is of the codec that its memory had."""
    store, budget = RecordStore(tmp_path), {"memory_bytes": "1024/task"}
    given = {"model": "samc", "dataset": "split-cifar100", "preset": "best", **budget}
    job = make_job(given)
    shape = {"image_shape": [3, 32, 32]}
    ours = codec_for(Budget(1024), (3, 32, 32), salient=True)
    record = of_job(job, 0.7)
    memory = {**record.memory, "budget_bytes": 1024, "codec": ours}
    store.keep(job, Outcome(replace(record, memory=memory, fingerprint={**record.fingerprint, **shape})))
    assert store.find(job) is not None
    assert store.find(make_job({**given, "codec": ours})) is not None
    assert store.find(make_job({**given, "codec": "jpeg:10"})) is None
    changed = replace(record, memory={**memory, "codec": "jpeg:7"}, fingerprint={**record.fingerprint, **shape})
    store.keep(job, Outcome(changed))
    assert RecordStore(tmp_path).find(job) is None
    assert RecordStore(tmp_path).find(make_job({**given, "codec": "jpeg:7"})) is not None


def test_what_saliency_is_worth(tmp_path):
    def acc(variant, seed):
        gain = 0.01 * (seed + 1) if variant.against else 0
        return None if variant.at == SALIENCY_BUDGETS[0] and not variant.against and seed > 2 else 0.5 + gain

    publish(*made("saliency", acc), tmp_path, {})
    name = next(iter(USES_OF_SALIENCY))
    first, second, *rest = [row for row in table(tmp_path / "saliency.md") if row[0] == name]
    budgets = [f"{at:,}" for at in SALIENCY_BUDGETS]
    # 1 to 3 points: t = 2·√3 with 2 degrees
    assert first[:4] == [name, budgets[0], "5", "53.00 ± 1.58"]
    assert first[4:] == ["10.0", "50.00 ± 0.00", "10.0", "3", "+2.00", "−0.48 to +4.48", "0.074"]
    assert second[1:] == [budgets[1], "5", "53.00 ± 1.58", "10.0", "50.00 ± 0.00", "10.0", "5", "+3.00",
                          "+1.04 to +4.96", "0.013"]  # fmt: skip
    assert [row[1] for row in rest] == budgets[2:]


# equal bytes


def test_rows_at_equal_bytes_are_tested_against_our_default(tmp_path):
    def acc(variant, seed):
        few = {"er": (0.40, 0.42, 0.44), "mer": (0.40, 0.42), "gem": ()}.get(variant.label)
        if few is not None:
            return few[seed] if seed < len(few) else None
        return 0.5 + 0.01 * seed

    item, results = made("equal-bytes", acc)
    publish(item, {key: record for key, record in results.items() if key[0] == "split-cifar100"}, tmp_path, {})
    header, _, *rows = table(tmp_path / "equal-bytes.md")
    p = {row[0]: row[-1] for row in rows}
    assert header[-1] == "p against samc, our default"
    assert (p["samc, our default"], p["gem"], p["icarl"]) == ("–", "–", "1.000")
    assert p["mer"] == "–"  # two seeds
    # 2.5/5 + 4/3 = 1.833: t = 10/√1.833 with 1.833²/(0.5²/4 + 1.333²/2) = 3.533 degrees
    assert p["er"] == "0.003"
