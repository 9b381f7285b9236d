"""Tables that README and docs write by hand say what records say: none of their figures can go stale."""

import re
from statistics import mean, stdev

import pytest

from figures import (
    ACC,
    BWT_BY_T,
    ROOT,
    STREAMS,
    by_seed,
    chance,
    implied_just_learnt,
    runs_of,
    says,
    says_verdict,
    shown_records,
    signs,
    table,
    theory,
)
from samc.learners import LEARNERS
from samc.record import RunRecord
from samc.report.accuracy_table import p_against_paper
from samc.report.claims_table import over_all
from samc.report.found import find_runs
from samc.report.measures import extra_bytes, images_per_task, just_learnt_percent, memory_bytes
from samc.report.numbers import DASH
from samc.report.paired_table import paired_rows
from samc.report.paper import published
from samc.report.spread import spread

pytestmark = pytest.mark.slow
NAMES = {
    "SAMC, `--preset paper`": "samc",
    "SAMC, `--preset text`": "samc, the paper's text",
    "SAMC, from the stream alone": "samc, from the stream alone",
    "SAMC, from the stream alone, values accounting (the paper's count)": "samc, from the stream alone",
    "the same, with ER's rule instead of GEM's projection": "samc, from the stream alone, ER's rule",
    "SAMC, counted in true bytes": "samc, from the stream alone, in true bytes",
    "SAMC, from the stream alone, in true bytes": "samc, from the stream alone, in true bytes",
    "SAMC, best": "samc, our default",
    "our best preset, five seeds": "samc, our default",
    "SAMC, best with smoothing, but for the average and heads held to it": (
        "all but the average, and old heads held, which needs it"
    ),
    "ER, `--preset best`": "er, with the parts",
    "MER, `--preset best`": "mer, with the parts",
    "ER, `--codec webp:20`": "er, webp:20",
    "ER, `--codec jpeg:5`": "er, jpeg:5",
    "ER, as the authors' code replays": "er, as released",
    "MER, as the authors' code replays": "mer, as released",
    "finetune, lr 1 (the paper's best)": "finetune",
    "finetune, the paper's best lr (0.1 and 1)": "finetune",
    "zeros": "zero",
    "autoencoder alone": "autoencoder",
    "rule alone": "rule",
    "rule and autoencoder, as a correction": "rule+autoencoder",
    "autoencoder alone, pretrained": "autoencoder, pretrained",
    "rule and autoencoder, pretrained": "rule+autoencoder, pretrained",
}
# what a document calls a row, where that is not its label in capitals
OF_FORMS = {
    "`--preset paper`": ("table1", "samc"),
    "`--preset text`": ("table1", "samc, the paper's text"),
    "pretrained, left as it is": ("table2", "rule+autoencoder, pretrained"),
    "as released": ("released", "samc, as released"),
    "rule alone": ("table2", "rule"),
    "from the stream alone": ("table1", "samc, from the stream alone"),
    "the same, ER's rule": ("table1", "samc, from the stream alone, ER's rule"),
}
# the item and the row of each form of SAMC that was tried against the gap
FORMS = OF_FORMS | {
    "the same, counted in true bytes": ("table1", "samc, from the stream alone, in true bytes"),
    "the same with Grad-CAM of the label, in eval mode": OF_FORMS["pretrained, left as it is"],
    "from the stream alone, ER's rule": OF_FORMS["the same, ER's rule"],
    "from the stream alone, in true bytes": ("table1", "samc, from the stream alone, in true bytes"),
}
# and of those that are compared with rivals and with each other
OF_PARTS = {
    "the average (taken away: and old heads held, which needs it)": (
        "the average",
        "the average, and old heads held, which needs it",
    ),
    "old heads held (alone: with the average)": (
        "old heads held, and the average that they are held to",
        "old heads held",
    ),
}
# what is alone in a row, and what is taken away, where they differ
USUAL = {"average": 0.99, "distil": 0.0, "batch_classes": "task", "codec": "jpeg:10"}
# in the search with one head, where a row says nothing else


def row_of(known, name):
    return known[NAMES.get(name, name.lower())]


def shows_acc(cells, runs, stream, item="table1"):
    """Ours, the paper's and p; where a document has no paper's, the paper has none."""
    ours, theirs, p = cells
    if theirs == DASH:
        return says(ours, *runs.mean_and_sd(ACC)) and p == DASH and not (runs.records and runs.variant.paper)
    row = published(item, stream)[runs.variant.paper or runs.variant.model]
    found = p_against_paper(runs.over_seeds(ACC), row["acc"], row["acc_sd"])
    paper = (row["acc"], row["acc_sd"]) if "±" in theirs else (row["acc"],)
    return says(ours, *runs.mean_and_sd(ACC)) and says(theirs, *paper) and says(p, found)


def test_the_readmes_results():
    """A cell such as `48.7 ± 0.9 (50.28 ± 1.28): level` has Welch's word on ours against the paper's."""
    for method, *cells in table("README.md", "| method | Split CIFAR-100 | Split CIFAR-10 |"):
        for stream, cell in zip(STREAMS.values(), cells, strict=True):
            runs = row_of(runs_of("table1", stream), method)
            ours, _, theirs = cell.partition(" (")
            assert says(ours, *runs.mean_and_sd(ACC)), (method, stream)
            assert len(runs.records) == (3 if stream == "split-mini-imagenet" and method != "SAMC, best" else 5)
            if method == "SAMC, best":
                assert theirs == "", stream
                continue
            paper = published("table1", stream)[runs.variant.paper or runs.variant.model]
            figures, _, word = theirs.partition("): ")
            p = p_against_paper(runs.over_seeds(ACC), paper["acc"], paper["acc_sd"])
            right = "level" if p >= 0.05 else "above" if runs.mean(ACC) > paper["acc"] else "below"
            assert says(figures, paper["acc"], paper["acc_sd"]), (method, stream)
            assert word == right, (method, stream, p)


def test_the_readmes_presets():
    rows = {name: cells for name, *cells in table("README.md", "| | `--preset paper`") if name.startswith("Split")}
    for name, stream in STREAMS.items():
        (cells,) = (cells for row, cells in rows.items() if row.split(",")[0] == name)
        for label, cell in zip(("samc", "samc, our default"), cells, strict=True):
            runs = runs_of("table1", stream)[label]
            assert says(cell, *runs.mean_and_sd(ACC), runs.mean(memory_bytes)), (name, cell)
    small = [runs_of("saliency")[f"smooth where nothing is salient, {size} bytes"] for size in ("3,073", "1,024")]
    (_, cell), *_ = (cells for row, cells in rows.items() if "3,073 and in 1,024" in row)
    assert says(cell, *(value for runs in small for value in runs.mean_and_sd(ACC)))


def test_the_readmes_equal_bytes():
    for method, _, kept, extra, acc in table("README.md", "| method | what it stores"):
        runs = row_of(runs_of("parts") | runs_of("table1") | runs_of("equal-bytes"), method)
        assert says(acc, *runs.mean_and_sd(ACC)), method
        assert says(kept, runs.mean(images_per_task)), method
        assert says(extra, runs.mean(extra_bytes)), method


def test_fidelity_on_split_cifar100():
    rows = table("docs/fidelity.md", "| method | ACC: ours | ACC: paper | difference")
    for method, ours, theirs, difference, p, stored, extra in rows:
        runs = row_of(runs_of("released") | runs_of("table1"), method)
        assert shows_acc((ours, theirs, p), runs, "split-cifar100"), (method, ours, theirs, p)
        paper = published("table1", "split-cifar100")[runs.variant.model]["acc"] if theirs != DASH else None
        assert says(difference, paper and runs.mean(ACC) - paper), method
        assert says(stored, runs.mean(memory_bytes)), method
        assert says(extra, runs.mean(extra_bytes)), method


def test_fidelity_on_the_other_streams():
    for method, *cells in table("docs/fidelity.md", "| method | CIFAR-10: ours"):
        for stream, shown in (("split-cifar10", cells[:3]), ("split-mini-imagenet", cells[3:])):
            assert shows_acc(shown, row_of(runs_of("table1", stream), method), stream), (method, stream, shown)


def test_fidelity_on_ways_to_complete():
    for completion, *cells in table("docs/fidelity.md", "| completion | CIFAR-100: ours"):
        for number, stream in enumerate(STREAMS.values()):
            known, (ours, theirs, p, *from_rule) = runs_of("table2", stream), cells[4 * number : 4 * number + 4]
            runs, paper = row_of(known, completion), published("table2", stream)
            row = paper[row_of(known, completion).variant.paper or runs.variant.model]
            values = [value for value in runs.mean_and_sd(ACC) if value is not None] or [None]
            enough = len(runs.records) >= 3
            assert says(ours, *values), (completion, stream)
            assert says(theirs, row["acc"]), (completion, stream)
            assert says(p, p_against_paper(runs.over_seeds(ACC), row["acc"], row["acc_sd"]) if enough else None), cells
            for cell in from_rule:  # none on mini-ImageNet, where the rule has one seed
                both = (by_seed(ACC, runs.variant.label, "table2", stream), by_seed(ACC, "rule", "table2", stream))
                assert cell == DASH if completion == "rule alone" else says_verdict(cell, *both), (completion, stream)


def of_form(name, stream, measure=ACC):
    item, label = FORMS[name]
    return by_seed(measure, label, item, stream)


def test_fidelity_on_forms_beside_rivals():
    rows = table("docs/fidelity.md", "| stream | SAMC's form | GEM")
    assert len(rows) == 14
    for name, form, *cells in rows:
        stream = STREAMS[f"Split {name}"]
        for rival, cell in zip(("gem", "er", "mer", "icarl", "eec", "lwf"), cells, strict=True):
            ours, theirs = of_form(form, stream), by_seed(ACC, rival, "table1", stream)
            assert min(len(ours), len(theirs)) >= 3, (name, form, rival)
            assert says_verdict(cell, ours, theirs), (name, form, rival, cell)


def test_fidelity_on_forms_beside_each_other():
    first = second = ""
    for one, other, name, *cells in table("docs/fidelity.md", "| first | second | stream"):
        first, second, stream = one or first, other or second, STREAMS[f"Split {name}"]
        for measure, cell in zip((ACC, BWT_BY_T, just_learnt_percent), cells, strict=True):
            assert cell != DASH, (first, second, name)
            both = of_form(first, stream, measure), of_form(second, stream, measure)
            assert says_verdict(cell, *both), (first, second, name, cell)


def test_fidelity_on_what_was_tried():
    rows = {form: cells for form, _, _, *cells in table("docs/fidelity.md", "| form | Grad-CAM")}
    assert rows.keys() == OF_FORMS.keys()
    for form, (item, label) in OF_FORMS.items():
        for number, stream in enumerate(STREAMS.values()):
            acc, shown = rows[form][2 * number : 2 * number + 2]
            values = [*map(ACC, shown_records(acc, item, label, stream).values())]
            found, paper = spread(values), published("table1", stream)["samc"]
            p = p_against_paper(found, paper["acc"], paper["acc_sd"]) if found else None
            known = [value for value in (found and found.mean, found and found.sd) if value is not None]
            assert says(acc, *known), (form, stream, acc)  # one seed has no deviation
            assert says(shown, p), (form, stream, shown)


@pytest.mark.parametrize("name", ["CIFAR-100", "CIFAR-10"])
def test_fidelity_on_thresholds(name):
    stream = STREAMS[f"Split {name}"]
    rows, paper = table("docs/fidelity.md", f"| {name}: μ |"), published("table1", stream)["samc"]
    known = runs_of("threshold", stream)
    assert {threshold for threshold, *_ in rows} == {label for label, runs in known.items() if len(runs.records) == 3}
    for threshold, kept, acc, p, bwt, learnt, p_learnt in rows:
        runs = known[threshold]
        just_learnt = runs.over_seeds(just_learnt_percent)
        assert says(kept, runs.mean(images_per_task)), threshold
        assert says(acc, *runs.mean_and_sd(ACC)), threshold
        assert says(p, p_against_paper(runs.over_seeds(ACC), paper["acc"], paper["acc_sd"])), threshold
        assert says(bwt, runs.mean(BWT_BY_T)), threshold
        assert says(learnt, just_learnt.mean), threshold
        assert says(p_learnt, p_against_paper(just_learnt, *implied_just_learnt(paper))), threshold


def test_fidelity_on_sizes():
    known = runs_of("memory-size")
    rows = table("docs/fidelity.md", "| images per task | SAMC: images kept")
    assert [size for size, *_ in rows] == ["10", "20", "30", "40", "50"]
    for size, kept, nbytes, *cells, lead in rows:
        ours, gem = (known[f"{model}, {size}"] for model in ("samc", "gem"))
        assert len(ours.records) == len(gem.records) == 3, size
        assert says(kept, ours.mean(images_per_task)), size
        assert says(nbytes, ours.mean(memory_bytes)), size
        for runs, (acc, bwt, learnt) in ((ours, cells[:3]), (gem, cells[3:])):
            assert says(acc, *runs.mean_and_sd(ACC)), (size, acc)
            assert says(bwt, runs.mean(BWT_BY_T)), size
            assert says(learnt, runs.mean(just_learnt_percent)), size
        both = (by_seed(ACC, f"{model}, {size}", "memory-size") for model in ("samc", "gem"))
        assert says_verdict(lead, *both), (size, lead)


def test_diagnosis_on_split_cifar100():
    diagnosis = theory()
    over, pairs = over_all(diagnosis), signs(diagnosis["steps"])
    if_positive, if_not = ([true for completed, true in pairs if completed == sign] for sign in (True, False))
    acute = round(over["acute"] * len(pairs))
    measured = [
        (100 * over["acute"], len(pairs)),
        (100 * over["fell_when_acute"], acute),
        (100 * over["fell_when_acute_after_short_step"],),
        (100 * over["signs_agree"], len(pairs)),
        (100 * chance(pairs),),
        (100 * over["truly_acute_when_acute"], len(if_positive)),
        (100 * mean(if_not), len(if_not)),
        (over["reference_cosine"],),
        (100 * over["bound_holds"], over["images"]),
        (over["output_error"], over["output_bound"]),
    ]
    for (_, what, cell), values in zip(table("docs/diagnosis.md", "| claim | measured |"), measured, strict=True):
        assert says(cell, *values), (what, cell, values)


def test_fidelity_on_where_the_gap_is():
    """The paper gives no deviation of tasks just learnt; the sum of the two that it gives is the largest possible."""
    name = ""
    for stream, method, bwt, theirs, p, learnt, implied, p_learnt in table(
        "docs/fidelity.md", "| stream | method | BWT"
    ):
        name = stream or name
        runs = row_of(runs_of("table1", STREAMS[f"Split {name}"]), method)
        row = published("table1", STREAMS[f"Split {name}"])[runs.variant.model]
        forgotten, just_learnt = runs.over_seeds(BWT_BY_T), runs.over_seeds(just_learnt_percent)
        assert says(bwt, forgotten.mean, forgotten.sd), (name, method)
        assert says(theirs, row["bwt"], row["bwt_sd"]), (name, method)
        assert says(p, p_against_paper(forgotten, row["bwt"], row["bwt_sd"])), (name, method)
        assert says(learnt, just_learnt.mean), (name, method)
        assert says(implied, implied_just_learnt(row)[0]), (name, method)
        assert says(p_learnt, p_against_paper(just_learnt, *implied_just_learnt(row))), (name, method)


def test_fidelity_on_variants():
    for change, *cells in table("docs/fidelity.md", "| variant | CIFAR-10: seed 0"):
        label = "from the stream alone, as in Table 1" if change == "as in Table 1" else change
        first, second = (ACC(runs_of("variants", "split-cifar10")[label].records[seed]) for seed in (0, 1))
        ten_tasks = ACC(runs_of("variants")[label].records[0])
        values = (first, second, (first + second) / 2, ten_tasks)
        assert all(map(says, cells, values)), (change, cells, values)


def test_methods_on_parts():
    rows = {row.values["row"]: row.values for row in paired_rows("split-cifar100", list(runs_of("parts").values()))}

    def shows(label, acc, difference, p):
        row = rows[label]
        right = says(acc, row["acc_mean"], row["acc_sd"]), says(difference, row["difference_mean"]), says(p, row["p"])
        assert all(right), (label, acc, difference, p)

    no_part, all_parts, *single = table("docs/methods.md", "| | alone: ACC %")
    assert says(no_part[1], rows["no part"]["acc_mean"], rows["no part"]["acc_sd"])
    shows("all parts", all_parts[4], *all_parts[2:4])
    for part, *cells in single:
        alone, without = OF_PARTS.get(part, (part, part))
        shows(f"only {alone}", *cells[:3])
        shows(f"all but {without}", *cells[3:])


def test_memory_on_saliency():
    values = [row.values for row in paired_rows("split-cifar100", list(runs_of("saliency").values()))]
    rows = {row["at"]: row for row in values if row["against"]}
    for nbytes, plain, smooth, difference, p in table("docs/memory.md", "| bytes per task | plain JPEG | smooth"):
        row = rows.pop(float(nbytes.replace(",", "")))
        ends = row["difference_interval_low"], row["difference_interval_high"]
        against = [row[f"against_{name}"] for name in ("acc_mean", "acc_sd", "images_per_task")]
        assert says(plain.partition(" (")[0], *against), nbytes
        assert says(smooth, row["acc_mean"], row["acc_sd"], row["images_per_task"])
        assert says(difference, row["difference_mean"], *ends), nbytes
        assert says(p, row["p"]), nbytes
    assert rows == {}


@pytest.mark.parametrize("page", ["README.md", "docs/scenarios.md"])
def test_one_head_at_equal_bytes(page):
    rows = table(page, "| method | CIFAR-100, 614,600 bytes")
    columns = (
        ("split-cifar100", 614_600),
        ("split-cifar100", 3_073_000),
        ("split-cifar10", 614_600),
        ("split-mini-imagenet", 4_233_800),
    )
    assert len(rows) == 6
    for method, *cells in rows:
        for (stream, nbytes), cell in zip(columns, cells, strict=True):
            label = f"{method.lower()}, {nbytes:,} bytes"
            shown, _, where = cell.partition(" (CPU")
            values = [*map(ACC, shown_records(cell, "class-incremental", label, stream).values())]
            assert len(values) == (3 if where else 0 if cell == "not run" else 5), (method, stream, cell)
            assert says(shown, *([mean(values), stdev(values)] if values else [None])), (method, stream, cell, values)


def test_scenarios_every_method():
    columns = "split-synthetic", "scenarios/class", "scenarios/domain"
    rows = table("docs/scenarios.md", "| method | `task` | `class` | `domain` |")
    assert [method for method, *_ in rows] == list(LEARNERS)
    for method, *cells in rows:
        for folder, cell in zip(columns, cells, strict=True):
            records = [RunRecord.load(run) for run in (ROOT / "results" / folder).glob(f"{method}-seed?")]
            if cell == "refused":
                assert (method, folder, records) == ("icarl", "scenarios/domain", [])
                continue
            values = [ACC(record) for record in records]
            assert len(values) == 3, (method, folder)
            assert says(cell, mean(values), stdev(values)), (method, folder, cell)


def test_scenarios_how_best_was_chosen():
    """Every point of the search, each with all of its seeds."""
    found = {}
    for run in find_runs([ROOT / "results" / "held-out-class" / "split-cifar100"]):
        config = run.record.config
        if config["memory_bytes"] == "614600":
            point = tuple(config[name] for name in ("lr", "replay_size", "steps_per_batch", "augment", *USUAL))
            found.setdefault(point, {})[config["seed"]] = ACC(run.record)
    rows = table("docs/scenarios.md", "| lr | replayed | steps per batch")
    for lr, replayed, steps, augment, other, *cells in rows:
        flags = re.findall(r"`--([a-z-]+) ([^`]+)`", other)
        changed = {name.replace("-", "_"): type(USUAL[name.replace("-", "_")])(value) for name, value in flags}
        seeds = found.pop((float(lr), int(replayed), int(steps), augment, *(USUAL | changed).values()))
        assert says(cells[0], seeds.pop(0)), (lr, replayed, steps, augment, other)
        assert says(cells[1], seeds.pop(1, None)), (lr, replayed, steps, augment, other)
        assert seeds == {}
    assert found == {}
