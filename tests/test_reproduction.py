"""The paper's tables and figures from records: right numbers, gaps shown, and equal records give equal files."""

import csv
import io
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import yaml
from PIL import Image
from rich.console import Console

from record_makers import of_job, record
from samc.errors import DataError
from samc.experiments.items import ITEMS
from samc.experiments.jobs import Outcome
from samc.experiments.pictures import RememberedImage, read_pictures
from samc.experiments.record_store import RecordStore
from samc.experiments.specification import Item, Variant, on_every_stream
from samc.presets import presets
from samc.report import accuracy_table
from samc.report.curves import accounting_text
from samc.report.missing import format_duration, missing_table
from samc.report.numbers import format_number
from samc.report.paper import paper, published
from samc.report.reproduction import FIGURES, TABLES, choose_tasks, publish
from samc.report.results_page import results_page
from samc.report.runs import by_stream
from samc.report.spread import Spread, spread
from samc.report.tables import (
    LATEX,
    Column,
    Table,
    TableRow,
    column_widths,
    escape_latex,
    to_csv,
    to_latex,
    to_markdown,
    to_rich,
)

PAPER_ITEMS = [name for name in ITEMS if name != "gallery"]


def results_of(item, make, streams=None, **part):
    """An item's runs as `make` gives them for stream, variant, seed and job."""
    return {key: make(*key, job) for key, job in item.jobs(streams, **part).items()}


def filled(name, gaps=True, **part):
    """Some of an item's runs, the same at every call: accuracies depend on variant and seed, every fifth is missing."""
    item = ITEMS[name]
    jobs = item.jobs(**part)
    accuracies = np.random.default_rng(0).uniform(0.3, 0.7, len(jobs))
    results = {}
    for place, ((key, job), acc) in enumerate(zip(jobs.items(), accuracies, strict=True)):
        made = of_job(job, float(acc), -0.05, images=12 if job.config.model in ("samc", "gem") else 0)
        if name == "theory":
            made = replace(made, diagnosis=diagnosis())
        results[key] = None if gaps and len(jobs) > 1 and place % 5 == 4 else made
    return item, results


def diagnosis():
    """Two tasks, three measured steps: one falls although acute, one disagrees with the truth."""
    step = {"task": 1, "past_task": 0, "loss_before": 1.0, "loss_after_short_step": 0.9, "reference_cosine": 0.5}
    steps = [
        {**step, "step": 0, "loss_after": 0.8, "product_applied": 1.0, "product_completed": 1.0, "product_true": 1.0},
        {**step, "step": 1, "loss_after": 1.2, "product_applied": 1.0, "product_completed": 1.0, "product_true": -1.0},
        {
            **step,
            "step": 2,
            "loss_after": None,
            "product_applied": -1.0,
            "product_completed": -1.0,
            "product_true": -1.0,
        },
    ]
    memory = {"output_bound": 10.0, "squared_error_inside": 0.0, "squared_error_outside": 0.01, "psnr_inside": None,
              "psnr_outside": 20.0, "ssim_inside": 1.0, "ssim_outside": 0.4}  # fmt: skip
    shares = ("acute", "fell_when_acute", "fell_when_acute_after_short_step", "signs_agree", "truly_acute_when_acute")
    tasks = [
        {"task": 0, "measured_steps": 3, **dict.fromkeys(shares, 0.5), "reference_cosine": 0.5, "images": 30,
         "output_error": 1.0, "bound_holds": 1.0, **memory},
        {"task": 1, "measured_steps": 0, **dict.fromkeys(shares), "reference_cosine": None, "images": 10,
         "output_error": 2.0, "bound_holds": 0.6, **memory},
    ]  # fmt: skip
    return {"tasks": tasks, "steps": steps, "memories": []}


def table(path):
    """A Markdown file's rows, as lists of cells."""
    lines = [line for line in path.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def lines_of(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


# over seeds


def test_mean_deviation_and_interval_by_hand():
    values = spread([50.0, 52.0, 54.0, 56.0, 58.0])
    assert (values.mean, values.sd) == (54, pytest.approx(math.sqrt(10)))
    # 2.7764 · √10 / √5 = 3.9265
    assert values.interval == pytest.approx((54 - 3.9265, 54 + 3.9265), abs=1e-4)
    assert (Spread((1.0,)).sd, Spread((1.0,)).interval, spread([])) == (None, None, None)


def test_two_seeds_have_no_interval():
    assert Spread((50.0, 52.0)).interval is None
    assert Spread((50.0, 52.0)).sd == pytest.approx(math.sqrt(2))
    # 4.3027 · 2 / √3 = 4.9683
    assert Spread((50.0, 52.0, 54.0)).interval == pytest.approx((52 - 4.9683, 52 + 4.9683), abs=1e-4)


# formats


def test_latex_escapes_whatever_it_is_given():
    assert escape_latex("a_b & 5 % of $x^2$ {#1} ~\\") == (
        r"a\_b \& 5 \% of \$x\textasciicircum{}2\$ \{\#1\} \textasciitilde{}\textbackslash{}"
    )
    assert escape_latex("−8.24 ± 1.47, μ – none") == r"$-$8.24 $\pm$ 1.47, $\mu$ -- none"
    assert [escape_latex(character) for character in LATEX] == list(LATEX.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PAPER_ITEMS if name in TABLES])
def test_latex_tables_are_whole_and_hold_nothing_but_ascii(name, tmp_path):
    publish(*filled(name), tmp_path, {})
    text = (tmp_path / f"{name}.tex").read_text()
    assert text.isascii()
    for kind in ("table*", "tabular"):
        assert text.count(f"\\begin{{{kind}}}") == text.count(f"\\end{{{kind}}}") > 0
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert not re.search(r"(?<!\\)[_#]", re.sub(r"\\label\{[^}]*\}|table\*", "", text))
    for tabular in re.findall(r"\\begin\{tabular\}\{(l?r*)\}(.*?)\\end\{tabular\}", text, flags=re.S):
        widths = {
            len(re.findall(r"(?<!\\)&", line)) + 1
            for line in tabular[1].splitlines()
            if line.endswith(r"\\") and "multicolumn" not in line
        }
        assert widths == {len(tabular[0])}


def test_the_same_table_in_four_formats():
    columns = [Column("x", "name", align="left"), Column("y", "value", "z", digits=1)]
    rows = [TableRow({"name": "a | b", "value": 1 / 3}, frozenset({"value"})), TableRow({"name": "c"})]
    note, own = "of both.", "of one."
    tables = [Table("one", columns, rows, [note, own]), Table("two", [], [], [note])]
    text = to_markdown(tables)
    assert "| x | z: y |\n| --- | ---: |" in text
    assert r"| a \| b | **0.3** |" in text
    assert text.count(note) == 1
    assert text.index(own) < text.index("## two") < text.index(note)
    assert to_csv([row.values for row in rows]) == f"name,value\na | b,{1 / 3}\nc,\n"
    assert r"a \textbar{} b & \textbf{0.3} \\" in to_latex(tables, "it")
    assert r"\begin{tabular}{lr}" in to_latex(tables, "it")
    assert r"\label{tab:it-2}" in to_latex(tables, "it")
    console = Console(width=80, file=io.StringIO(), markup=False)
    console.print(to_rich(tables[0]))
    assert [line.split() for line in console.file.getvalue().splitlines() if "─" not in line] == [
        ["one"], ["x", "z:", "y"], ["a", "|", "b", "0.3"], ["c", "–"], ["of", "both."], ["of", "one."]
    ]  # fmt: skip


def test_a_drawn_table_narrows_headings_before_cells_and_cuts_no_number():
    columns = [Column("name", align="left", wraps=True), Column("a long heading", "n"), Column("both", wraps=True)]
    table = Table("", columns, [TableRow({"name": "gem with-settings", "n": 1234567, "both": "12.5 ± 0.25"})])
    # whole: names 17, the heading 14, "12.5 ± 0.25" 11, and two characters between columns
    assert column_widths(table, table.cells(), 47) == [17, 14, 11]
    assert column_widths(table, table.cells(), 42) == [17, 9, 11]  # the number itself takes 9
    assert column_widths(table, table.cells(), 36) == [11, 9, 11]
    assert column_widths(table, table.cells(), 10) == [4, 9, 4]  # "name", the number, "12.5"


def test_what_a_column_makes_of_a_value():
    values = {"share": 0.756, "mean": -1.25, "sd": 0.5, "one": 2.0, "none": None, "near": True, "far": False, "n": "x"}
    columns = {
        "76 %": Column("", "share", scale=100, unit=" %"),
        "−1.2 ± 0.5": Column("", "mean", sd="sd", digits=1),
        "2": Column("", "one", sd="none"),
        "+2.00": Column("", "one", digits=2, sign="+"),
        "–": Column("none"),
        "yes": Column("near"),
        "no": Column("far"),
        "x": Column("", "n", unit=" %"),
        "0.756!": Column("", lambda values: f"{values['share']}!"),
    }
    assert [column.cell(values) for column in columns.values()] == list(columns)
    assert Column("absent").cell(values) == "–"


def test_numbers_as_they_are_shown():
    assert format_number(-1234.5, 1) == "−1,234.5"
    assert format_number(-0.001, 2, "+") == "0.00"
    assert format_number(0.5, 1, "+") == "+0.5"
    assert format_number(None) == "–"


# the paper's numbers


def test_the_papers_numbers_belong_to_rows_that_exist():
    assert published("table1", "split-cifar100")["samc"] == {"acc": 56.16, "acc_sd": 1.01, "bwt": -8.24, "bwt_sd": 1.47}
    assert published("table2", "split-mini-imagenet")["rule"]["acc"] == 44.10
    assert published("images-stored", "split-cifar100")[0.9] == 112.5
    assert published("table1", "split-synthetic") == {}
    for name in ("table1", "table2"):
        for stream in ITEMS[name].streams:
            rows = {variant.paper for variant in ITEMS[name].variants(stream)}
            assert set(published(name, stream)) == rows - {None}
    thresholds = {variant.at for variant in ITEMS["images-stored"].variants("split-cifar100")}
    assert set(published("images-stored", "split-cifar100")) == thresholds
    for stream, best in paper()["best-threshold"].items():
        assert presets()["paper"][stream]["samc"]["threshold"]["value"] == best


# tables 1 and 2


def small_table(accuracies, stream="split-cifar100"):
    """Rows by label, with the accuracies of their seeds; None is a run that is missing."""
    variants = {label: Variant(label, "gem", {}, label) for label in accuracies}
    results = {}
    for label, values in accuracies.items():
        for seed, acc in enumerate(values):
            made = None if acc is None else record(acc, -0.1, stream=stream, model="gem", seed=seed)
            results[stream, variants[label], seed] = made
    return Item("table1", "a table", on_every_stream(*variants.values())), results


def test_a_row_stands_next_to_the_papers(tmp_path):
    item, results = small_table(
        {"gem": [0.50, 0.52, 0.54, 0.56, 0.58], "er": [0.49, None, 0.50], "samc": [None, None], "ours": [0.3]}
    )
    publish(item, results, tmp_path, {})
    header, _, gem, er, samc, ours = table(tmp_path / "table1.md")
    assert header[:7] == [
        "method", "seeds", "ACC: ours", "ACC: 95 % interval", "ACC: paper", "ACC: difference", "ACC: p"
    ]  # fmt: skip
    assert header[7:12] == [f"BWT: {name}" for name in ("ours", "95 % interval", "paper", "difference", "p")]
    # t = 3.72/√(10/5 + 1.28²/5), 5.275 degrees
    assert gem[:7] == ["gem", "5", "**54.00 ± 3.16**", "50.07 to 57.93", "50.28 ± 1.28", "+3.72", "0.056"]
    # −10 by T − 1 is −9.5 by T, of twenty tasks; t = 4.06/(1.11/√5) with 4 degrees
    assert gem[7:12] == ["−9.50 ± 0.00", "−9.50 to −9.50", "−13.56 ± 1.11", "+4.06", "0.001"]
    assert gem[12:] == ["10.0", "bytes", f"{20 * 10 * 3073:,}", "0"]
    assert er[:2] == ["er", "2 of 3"]
    assert er[3:7] == ["–", "49.72 ± 1.82", "−0.22", "–"]  # two seeds: no interval, no test
    assert er[8:12] == ["–", "−13.84 ± 2.59", "+4.34", "–"]
    assert samc[:7] == ["samc", "not run", "–", "–", "56.16 ± 1.01", "–", "–"]
    assert ours[:7] == ["ours", "1", "30.00", "–", "–", "–", "–"]
    rows = {row["method"]: row for row in lines_of(tmp_path / "table1.csv")}
    assert float(rows["gem"]["acc_sd"]) == pytest.approx(math.sqrt(10), abs=1e-12)
    assert float(rows["gem"]["acc_interval_high"]) == pytest.approx(54 + 3.92649, abs=1e-5)
    assert float(rows["gem"]["acc_p"]) == pytest.approx(0.0561851, abs=1e-7)
    assert float(rows["gem"]["bwt_by_t_mean"]) == pytest.approx(-9.5)
    assert not {"bwt_mean", "bwt_p"} & set(rows["gem"])
    assert (rows["samc"]["seeds"], rows["samc"]["seeds_asked"], rows["samc"]["acc_mean"]) == ("0", "2", "")
    assert rows["samc"]["paper_acc_mean"] == "56.16"


def test_an_interval_of_few_seeds_ends_where_the_scale_does(tmp_path):
    item, results = small_table({"gem": [0.1, 0.9, 0.5]})
    publish(item, results, tmp_path, {})
    *_, gem = table(tmp_path / "table1.md")
    assert gem[2:4] == ["**50.00 ± 40.00**", "0.00 to 100.00"]
    assert gem[8] == "−9.50 to −9.50"


def test_no_deviation_of_the_papers_no_test(monkeypatch, tmp_path):
    monkeypatch.setattr(accuracy_table, "published", lambda item, stream: {"gem": {"acc": 50.0, "bwt": -9.0}})
    publish(*small_table({"gem": [0.5, 0.6, 0.7]}), tmp_path, {})
    *_, gem = table(tmp_path / "table1.md")
    assert gem[4:7] == ["50.00", "+10.00", "–"]
    assert gem[9:12] == ["−9.00", "−0.50", "–"]


def test_a_table_without_the_papers_has_bwt_by_t_minus_one(tmp_path):
    item, results = small_table({"gem": [0.5, 0.6, 0.7]}, stream="split-synthetic")
    publish(item, results, tmp_path, {})
    header, _, gem = table(tmp_path / "table1.md")
    assert header[2:6] == ["ACC: mean", "ACC: 95 % interval", "BWT: mean", "BWT: 95 % interval"]
    assert gem[2:6] == ["**60.00 ± 10.00**", "35.16 to 84.84", "−10.00 ± 0.00", "−10.00 to −10.00"]
    text = (tmp_path / "table1.md").read_text()
    assert "paper" not in text.lower()
    publish(*small_table({"gem": [0.5]}), tmp_path, {})
    assert "BWT is divided by the number of tasks T here" in (tmp_path / "table1.md").read_text()


@pytest.mark.parametrize("name", list(ITEMS))
def test_what_compares_with_the_papers_bwt_divides_by_t(name):
    if TABLES.get(name) not in (accuracy_table.accuracy_tables, accuracy_table.equal_bytes_tables):
        assert name not in ("table1", "table2", "equal-bytes")
        return
    for shown in TABLES[name](*filled(name)):
        headings = {column.full_heading: column.key for column in shown.columns}
        beside = "BWT: paper" in headings
        assert beside == (name != "variants")
        assert headings["BWT: ours" if beside else "BWT: mean"] == ("bwt_by_t_mean" if beside else "bwt_mean")
        assert any("divided by the number of tasks T" in note for note in shown.notes) == beside


def test_accounts_may_differ_and_are_named_other_terms_may_not(tmp_path):
    item, results = small_table({"gem": [0.5], "samc": [0.6]})
    first, second = results
    in_values = record(0.6, stream="split-cifar100", accounting="values", model="samc")
    publish(item, {**results, second: in_values}, tmp_path, {})
    assert [row[13] for row in table(tmp_path / "table1.md")[2:]] == ["bytes", "values"]
    assert "Not all rows count their memory alike" in (tmp_path / "table1.md").read_text()
    publish(item, results, tmp_path, {})
    assert "Not all rows" not in (tmp_path / "table1.md").read_text()
    other = replace(results[second], fingerprint={**results[second].fingerprint, "epochs": 2})
    with pytest.raises(
        DataError, match=r"'gem, seed 0' and 'samc, seed 0' .* epochs is 1 in the first, 2 in the second"
    ):
        publish(item, {first: results[first], second: other}, tmp_path, {})


def test_only_the_axis_of_a_figure_may_differ(tmp_path):
    item, results = filled("memory-size", gaps=False, streams=["split-cifar10"])
    budgets = {record.fingerprint["budget_images"] for record in results.values()}
    assert budgets == {10, 20, 30, 40, 50}
    assert len(publish(item, results, tmp_path, {})) == 3
    with pytest.raises(DataError, match="budget_images is 10 in the first, 20 in the second"):
        by_stream(results)


# the other tables


def test_images_stored_ascend_next_to_the_papers(tmp_path):
    item = ITEMS["images-stored"]
    results = results_of(
        item, lambda stream, variant, seed, job: of_job(job, images=10 + seed) if variant.at in (0, 0.7) else None
    )
    publish(item, results, tmp_path, {})
    rows = table(tmp_path / "images-stored.md")[2:]
    assert [float(row[0]) for row in rows] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert rows[0][1:] == ["3", "11.0 ± 1.0", "10.0", "+10.0"]
    assert rows[7][1:] == ["3", "11.0 ± 1.0", "43.5", "−74.7"]
    assert rows[9][1:] == ["not run", "–", "112.5", "–"]


def test_table3_in_proportion(tmp_path):
    item = ITEMS["table3"]
    seconds = {
        "gem": {"current gradient": 40.0, "gradients": 60.0, "evaluation": 7.0, "total": 107.0},
        "samc": {"current gradient": 40.0, "saliency": 6.0, "autoencoder": 2.0, "evaluation": 7.0, "total": 127.0},
    }
    results = results_of(
        item,
        lambda stream, variant, seed, job: of_job(
            job, images={"gem": 10, "samc": 30}[variant.model], seconds=seconds[variant.model]
        ),
    )
    key = next(key for key in results if key[1].model == "samc")
    made = replace(results[key], memory={**results[key].memory, "memory_bytes": 60 * 1000})
    publish(item, {**{k: v for k, v in results.items() if k[1].model == "gem"}, key: made}, tmp_path, {})
    rows = {row["method"]: row for row in lines_of(tmp_path / "table3.csv") if row["part"] == "proportions"}
    assert float(rows["saved on images"]["ours"]) == pytest.approx(1 - 1000 / 3073)
    assert float(rows["saved on images"]["paper"]) == pytest.approx(1 - 137 / 413)
    assert float(rows["extra time, as the paper counts"]["ours"]) == pytest.approx(0.08)
    assert float(rows["extra time, as the paper counts"]["paper"]) == 0.075
    assert float(rows["extra time, all of it"]["ours"]) == pytest.approx(0.2)
    text = (tmp_path / "table3.md").read_text()
    assert "44 + 137 + 0.5 MB" in text
    assert "133 + 7 + 3 s" in text
    # 1.1 million parameters of four bytes, and their running statistics: a tenth of the paper's 44 MB
    assert re.search(r"\| gem \| 5 \| 4,3\d\d,\d\d\d \| 61,460 \| 0 \| 20\.0 \| 3,073 \|", text)


def test_the_theory_over_all_steps_and_images(tmp_path):
    item, results = filled("theory")
    publish(item, results, tmp_path, {})
    first, last, every = lines_of(tmp_path / "theory.csv")
    assert (first["task"], last["task"], every["task"]) == ("1", "2", "all")
    assert last["acute"] == ""
    assert float(every["acute"]) == pytest.approx(2 / 3)
    assert float(every["fell_when_acute"]) == 0.5
    assert float(every["fell_when_acute_after_short_step"]) == 1
    assert float(every["signs_agree"]) == pytest.approx(2 / 3)
    assert float(every["truly_acute_when_acute"]) == 0.5
    assert float(every["output_error"]) == pytest.approx((30 * 1 + 10 * 2) / 40)
    assert float(every["bound_holds"]) == pytest.approx(0.9)
    rows = table(tmp_path / "theory.md")
    assert rows[2][-3:] == ["exact", "20.0", "0.40"]
    publish(item, dict.fromkeys(results), tmp_path, {})
    assert table(tmp_path / "theory.md")[2][:2] == ["not run", "0"]
    with pytest.raises(DataError, match="run it with --diagnose"):
        publish(item, {key: replace(made, diagnosis=None) for key, made in results.items()}, tmp_path, {})


@pytest.mark.slow
def test_the_grids_best_point_can_be_pasted(tmp_path):
    item = ITEMS["grid"]

    def make(stream, variant, seed, job):
        if variant.model == "ewc" or variant.settings == {"lr": 0.3}:
            return None
        good = variant.settings.get("lr") == 0.03 and variant.settings.get("threshold", 0.4) == 0.4
        return of_job(job, 0.6 if good else 0.5)

    results = results_of(item, make, ["split-cifar100"])
    publish(item, results, tmp_path, {})
    rows = {row[0]: row for row in table(tmp_path / "grid.md")[2:]}
    assert rows["finetune"] == ["finetune", "5 of 6", "lr 0.03", "60.00", "lr 1", "50.00"]
    assert rows["samc"][1:4] == ["54 of 54", "lr 0.03, threshold 0.4", "60.00"]
    assert rows["samc"][4:] == ["lr 0.1, threshold 0.7", "50.00"]
    assert rows["ewc"] == ["ewc", "not run (24)", "–", "–", "lr 1, regularization 1", "not run"]
    pasted = yaml.safe_load((tmp_path / "grid.yaml").read_text())["grid"]["split-cifar100"]
    old = presets()["paper"]["split-cifar100"]
    assert "ewc" not in pasted
    assert pasted["samc"]["lr"] == {"value": 0.03, "grid": old["samc"]["lr"]["grid"], "source": "grid"}
    assert pasted["samc"]["codec"] == old["samc"]["codec"]
    assert pasted["samc"]["autoencoder"] == {"value": "pretrained", "grid": ["pretrained"]}
    assert all(set(pasted[model]) == set(old[model]) for model in pasted)


def test_a_grid_judged_on_test_images_is_refused(tmp_path):
    item = ITEMS["grid"]
    results = results_of(item, lambda stream, variant, seed, job: of_job(job, tested_on="test"), quick=True)
    with pytest.raises(DataError, match="judged on held-out training images only"):
        publish(item, results, tmp_path, {})


# figures


@pytest.mark.slow
@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", PAPER_ITEMS)
def test_equal_records_give_equal_files(name, quick, tmp_path):
    item, results = filled(name, quick=quick)
    first, second = (publish(item, results, tmp_path / folder, {}) for folder in "ab")
    kinds = {"csv", *(("md", "tex") if name in TABLES else ()), *(("png", "svg") if name in FIGURES else ())}
    kinds |= {"yaml"} if name == "grid" else set()
    assert sorted(path.name for path in first) == sorted(f"{name}.{kind}" for kind in kinds)
    assert all(path.stat().st_size > 100 for path in first)
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
    published_files = {path.name for path in (tmp_path / "a").iterdir()}
    assert published_files == {path.name for path in first}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["first-task", "threshold", "memory-size"])
def test_figures_of_a_few_runs_and_of_none(name, tmp_path):
    item, results = filled(name)
    first = next(iter(results))
    few = {key: record if key == first else None for key, record in results.items()}
    few_paths = publish(item, few, tmp_path / "few", {})
    assert [path.suffix for path in few_paths] == [".png", ".svg", ".csv"]
    with Image.open(few_paths[0]) as one, Image.open(publish(item, results, tmp_path / "many", {})[0]) as many:
        assert many.width > 1.5 * one.width  # one panel, and three
    assert [path.name for path in publish(item, dict.fromkeys(results), tmp_path / "none", {})] == [f"{name}.csv"]


def test_the_numbers_behind_a_curve(tmp_path):
    item, results = filled("first-task", gaps=False, streams=["split-cifar10"])
    publish(item, results, tmp_path, {})
    rows = [row for row in lines_of(tmp_path / "first-task.csv") if row["variant"] == "gem"]
    curves = [record.first_task_curve for (_, variant, _), record in results.items() if variant.label == "gem"]
    assert [int(row["tasks_learnt"]) for row in rows] == [1, 2, 3, 4, 5]
    means, deviations = 100 * np.mean(curves, 0), 100 * np.std(curves, 0, ddof=1)
    np.testing.assert_allclose([float(row["first_task_accuracy_mean"]) for row in rows], means)
    np.testing.assert_allclose([float(row["first_task_accuracy_sd"]) for row in rows], deviations)


@pytest.mark.parametrize("name", ["first-task", "threshold", "memory-size"])
def test_nothing_of_a_figure_is_cut_off(tmp_path, name):
    """Where a name ran over the edge, there would be ink on it."""
    item, results = filled(name, gaps=False)
    publish(item, results, tmp_path, {})
    pixels = np.asarray(Image.open(tmp_path / f"{name}.png").convert("L"))
    for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]):
        assert (edge == 255).all()


def test_a_figure_says_whose_memory_is_counted_otherwise():
    _, results = filled("memory-size", gaps=False, streams=["split-cifar10"])
    streams = by_stream(results, axis=("accounting", "budget_images"))
    assert accounting_text(streams).startswith("SAMC: memory counted\nin colours only")
    only = {stream: [runs for runs in all_runs if runs.variant.model == "gem"] for stream, all_runs in streams.items()}
    assert accounting_text(only) == ""


@pytest.mark.slow
def test_one_gallery_per_stream(tmp_path):
    rng = np.random.default_rng(0)
    remembered = [
        RememberedImage(task, f"class {n}", rng.random((8, 8, 3)), rng.random((8, 8)), rng.random((8, 8)) > 0.5,
                   rng.random((8, 8, 3)), 99)
        for task in range(12) for n in range(2)
    ]  # fmt: skip
    file = tmp_path / "pictures.npz"
    names = ("task", "name", "truth", "saliency", "mask", "completed", "nbytes")
    np.savez_compressed(file, **{name: np.stack([getattr(image, name) for image in remembered]) for name in names})
    item, results = filled("gallery", gaps=False)
    pictures = {key: read_pictures(file) for key in list(results)[:2]}
    paths = publish(item, results, tmp_path, pictures)
    assert [path.name for path in paths] == ["gallery-split-cifar100.png", "gallery-split-cifar10.png"]
    with Image.open(paths[0]) as picture:
        assert picture.width > picture.height > 300
    assert publish(item, dict.fromkeys(results), tmp_path, {}) == []


def test_tasks_are_spread_from_the_first_to_the_last():
    assert choose_tasks(list(range(20)), 5) == [0, 5, 10, 14, 19]
    assert choose_tasks([3, 4], 5) == [3, 4]


# the page of results


@pytest.mark.slow
def test_the_page_shows_what_a_store_holds_and_lists_what_it_does_not(tmp_path, monkeypatch):
    begun = ("table1", "table2", "equal-bytes", "first-task", "threshold", "images-stored", "memory-size", "frontier")
    monkeypatch.setattr("samc.report.results_page.ITEMS", {name: ITEMS[name] for name in (*begun, "gallery")})
    store = RecordStore(tmp_path)
    empty = results_page(store)
    assert "\n0 of" in empty
    assert re.findall("^## .*", empty, flags=re.M) == ["## Not run yet"]
    command = "`samc reproduce table1 --datasets split-cifar100`"
    assert f"| table1 | split-cifar100 | 75 of 75 | unknown | {command} |" in empty
    for (_, variant, seed), job in ITEMS["table1"].jobs(["split-cifar100"]).items():
        if variant.label in ("samc, from the stream alone", "gem") and seed < 4:
            store.keep(job, Outcome(of_job(job, 0.5 + 0.01 * seed, seconds={"total": 90.0})))
    assert "first-task.png has not been drawn" in results_page(store, link="results/")
    for name in ("first-task", "threshold", "memory-size", "frontier"):
        (tmp_path / f"{name}.png").touch()
    text = results_page(store, link="results/")
    assert text == results_page(store, link="results/")
    assert text.startswith("# Results\n")
    assert "\n8 of " in text
    assert "[listed at the end](#not-run-yet)" in text
    assert "Learnt on a machine (torch 2.13.0, samc 0.2.0)." in text
    assert "### table1, split-cifar100" in text
    assert "### table1, split-cifar10\n" not in text
    assert "| gem | 4 of 5 | **51.50 ± 1.29** |" in text
    assert "not run yet:" not in text
    above, below = text.split("## Not run yet")
    # 67 of a minute and a half each
    assert f"| table1 | split-cifar100 | 67 of 75 | 2 h | {command} |" in below
    assert "| table1 | split-cifar10 | 75 of 75 | unknown |" in below
    assert "(results/first-task.png)" in above  # the same runs
    assert "(results/threshold.png)" in above  # its threshold of 0.7
    assert "gallery-" not in text
    assert re.findall("^## ([^ :]+): ", above, flags=re.M) == list(begun)
    assert set(re.findall(r"^\| ([^ ]+) \| split-", below, flags=re.M)) == {*begun, "gallery"}
    assert "| gem | 2 of 3 | **52.50 ± 0.71** |" in results_page(store, seeds=(2, 3, 7))


@pytest.mark.slow
def test_a_gallery_is_shown_where_it_lies_and_else_how_to_draw_it(tmp_path, monkeypatch):
    monkeypatch.setattr("samc.report.results_page.ITEMS", {"gallery": ITEMS["gallery"]})
    store = RecordStore(tmp_path)
    (job,) = ITEMS["gallery"].jobs(["split-cifar10"]).values()
    store.keep(job, Outcome(of_job(job, 0.5)))
    assert RecordStore(tmp_path).find(replace(job, pictures=False)) is None  # it took longer than that would have
    text = results_page(store)
    assert "gallery-split-cifar10.png is not shown: its pictures are of the data set's own images." in text
    assert "`samc reproduce gallery --datasets split-cifar10 --out FOLDER`" in text
    (tmp_path / "gallery-split-cifar10.png").touch()
    assert "](there/gallery-split-cifar10.png)" in results_page(store, link="there/")


def test_how_long_what_is_missing_would_take():
    stream, gem, er = "split-cifar100", Variant("gem", "gem"), Variant("er", "er")
    raw, joint = Variant("gem, more", "gem", {"lr": 0.3}), Variant("joint", "joint")

    def took(seconds):
        return record(seconds={"total": seconds})

    items = {
        "one": {(stream, gem, 0): took(100.0), (stream, gem, 1): None, (stream, gem, 2): took(900.0),
                (stream, er, 0): took(300.0), (stream, er, 1): None, (stream, raw, 0): None,
                (stream, joint, 0): None},
        "two": {(stream, raw, 0): None, (stream, joint, 0): None},
        "three": {(stream, joint, 0): None, ("split-cifar10", gem, 0): None},
        "four": {(stream, gem, 0): took(100.0)},
    }  # fmt: skip
    shown = missing_table(items)
    assert [[row.values[name] for name in ("missing", "runs", "seconds", "unknown")] for row in shown.rows] == [
        # the quickest other seed's twice, the item's rows of the same method, the mean over all of them
        [4, 7, 100 + 300 + 100 + 200, 0],
        [2, 2, 100, 1],  # a method's in other items
        [1, 1, 0, 1],
        [1, 1, 0, 1],
    ]
    assert [cells[2:4] for cells in shown.cells()] == [
        ["4 of 7", "12 min"], ["2 of 2", "2 min, and 1 unknown"], ["1 of 1", "unknown"], ["1 of 1", "unknown"]
    ]  # fmt: skip
    assert "an estimate" in " ".join(shown.notes)
    assert "side by side" in " ".join(shown.notes)
    assert missing_table(items, quick=True).rows[0].values["command"] == "`samc reproduce one --quick`"
    assert missing_table({"four": items["four"]}).rows == []


def test_durations():
    assert [format_duration(seconds) for seconds in (20.0, 90.0, 5_900.0, 7_200.0)] == [
        "under 1 min", "2 min", "98 min", "2 h"
    ]  # fmt: skip
