"""Comparisons: the right mean over the right runs, and nothing on different terms in one table."""

import io
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import samc
from samc.errors import DataError
from samc.learners import LEARNERS
from samc.protocol import run
from samc.report.comparison import MethodRow, comparison_tables, method_rows
from samc.report.found import find_runs
from samc.report.measures import just_learnt_percent, percent
from samc.report.numbers import format_mean
from samc.report.tables import markdown_grid, to_rich
from toys import coloured_squares

ROOT = Path(samc.__file__).parents[2]


def records_in(folder):
    return [found.record for found in find_runs([folder])]


@pytest.fixture(scope="module")
def record():
    stream = coloured_squares(per_class=10)
    return run(stream, samc.GEM(6, (3, 12, 12), lr=0.03, buffer_size=2), config={"model": "gem", "seed": 0, "lr": 0.03})


def like(record, seed, acc, **config):
    return replace(record, acc=acc, config={**record.config, "seed": seed, **config})


def test_mean_and_deviation_over_seeds(record):
    records = [like(record, seed, acc) for seed, acc in ((2, 0.7), (0, 0.5), (1, 0.6))]
    (table,) = comparison_tables(records)
    (cells,) = table.cells()
    assert cells[:3] == ["gem", "0, 1, 2", "60.0 ± 10.0"]
    assert cells[5] == f"{record.memory['memory_bytes']:,}" == f"{6 * 433:,}"


def test_other_settings_are_another_row_and_the_best_is_first(record):
    (table,) = comparison_tables([like(record, 0, 0.5), like(record, 0, 0.8, lr=0.1)])
    assert [cells[2] for cells in table.cells()] == ["80.0", "50.0"]
    assert table.title == "toy: 3 tasks, 60 training images, budget not stated, counted in bytes"


def test_other_terms_are_another_table(record):
    other = replace(record, fingerprint={**record.fingerprint, "budget_images": 99})
    tables = comparison_tables([record, other])
    assert [table.title.partition("budget ")[2].partition(",")[0] for table in tables] == [
        "not stated", "99 images per task"
    ]  # fmt: skip
    assert all(len(table.rows) == 1 for table in tables)


def test_just_learnt_is_the_diagonal(record):
    made = replace(record, accuracy_matrix=[[0.0, 0.0], [0.5, 0.1], [0.2, 0.9]])
    assert MethodRow("gem", (made,)).over_seeds(just_learnt_percent).mean == pytest.approx(70)


def test_of_two_equal_runs_the_later_counts_and_another_machine_is_another_row(record):
    elsewhere = replace(record, device={**record.device, "name": "another"})
    (table,) = comparison_tables([like(record, 0, 0.5), like(record, 0, 0.6), elsewhere])
    assert sorted(cells[1:3] for cells in table.cells()) == sorted([["0", "60.0"], ["0", f"{100 * record.acc:.1f}"]])


def test_a_run_that_was_begun_elsewhere_is_a_row_of_its_own(record):
    begun = {"device": record.device | {"name": "another"}, "versions": record.versions, "until": "task 2, step 3"}
    (table,) = comparison_tables([record, replace(record, acc=0.5, began_on=[begun])])
    assert [cells[1] for cells in table.cells()] == ["0", "0"]
    assert any(f"machine another, then {record.device['name']}" in cells[0] for cells in table.cells())


@pytest.mark.parametrize("folder", [folder.name for folder in (ROOT / "results").iterdir()])
def test_every_record_of_the_repository_can_be_reported(folder):
    console = Console(width=80, file=io.StringIO(), markup=False)
    for table in comparison_tables(records_in(ROOT / "results" / folder)):
        assert markdown_grid(table).count("\n") == len(table.rows) + 1
        console.print(to_rich(table))
        words = console.file.getvalue().split()
        assert all(word in words for cells in table.cells() for cell in cells[1:] for word in cell.split()), table.title
    assert max(map(len, console.file.getvalue().splitlines())) <= 80


def test_a_run_from_python_can_be_reported(tmp_path):
    made = run(coloured_squares(per_class=4), samc.GEM(6, (3, 12, 12), seed=3))
    made.save(tmp_path)
    (table,) = comparison_tables(records_in(tmp_path))
    assert table.cells()[0][:2] == ["gem", "3"]


def test_a_mean_is_shown_with_its_deviation_where_there_is_one():
    assert format_mean(1.0, None) == "1.0"
    assert format_mean(-2.0, statistics.stdev([1, 3]), sign="+") == "−2.0 ± 1.4"
    assert format_mean(None, None) == "–"


def test_a_folder_without_runs(tmp_path):
    with pytest.raises(DataError, match=r"holds no record\.json; name the folder of some runs"):
        records_in(tmp_path)


def shown_and_made(page, folder):
    """The table that a page shows of a folder of results, and the one that their records give."""
    text = (ROOT / "docs" / page).read_text()
    start = text.index(f"<!-- table: {folder} -->") + len(f"<!-- table: {folder} -->")
    (made,) = comparison_tables(records_in(ROOT / "results" / folder))
    return text[start : text.index("<!-- end of table -->", start)].strip(), markdown_grid(made)


@pytest.mark.parametrize(
    ("page", "folder"),
    [
        ("methods.md", "split-synthetic"),
        ("memory.md", "split-cifar100-equal-bytes"),
    ],
)
def test_tables_of_the_documents_are_made_from_their_records(page, folder):
    shown, made = shown_and_made(page, folder)
    assert shown == made


def test_on_the_embedded_stream_every_method_learns_replay_helps_and_joint_is_the_ceiling():
    """Joint is the ceiling of methods that answer by their network; an average of it is steadier than any of them."""
    ((_, rows),) = method_rows(records_in(ROOT / "results" / "split-synthetic")).items()
    assert {row.records[0].config["model"] for row in rows} == set(LEARNERS)
    assert all(len(row.records) == 3 for row in rows)
    assert all(row.over_seeds(just_learnt_percent).mean >= 25 + 15 for row in rows)
    averaged = [row for row in rows if row.records[0].config.get("average")]
    assert [row.records[0].config["model"] for row in averaged] == ["samc"]
    acc = {row.records[0].config["model"]: row.over_seeds(percent("acc")).mean for row in rows if row not in averaged}
    replaying = ("icarl", "gem", "agem", "er", "der", "mer", "eec", "samc")
    assert all(acc[method] > acc["finetune"] for method in replaying), acc
    assert all(acc["joint"] > acc[method] for method in acc if method != "joint"), acc
