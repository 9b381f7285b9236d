"""How a run is watched: bars that fit the terminal, lines in a log, and names by what makes a run differ."""

import io
import re
import sys

import pytest

from logs import progress_lines
from samc.cli.drawing import Terminal
from samc.cli.progress import Bar, ProgressBoard, details, fitted, live_progress, shortened
from samc.experiments.items import ITEMS
from samc.experiments.naming import name_runs
from samc.experiments.progress import ProgressNarrator
from samc.learners import GEM, Finetune
from samc.protocol import run
from toys import coloured_squares

TOLD = {
    "total": 4500,
    "completed": 1500,
    "task": 12,
    "tasks": 20,
    "step": 123,
    "steps": 225,
    "loss": 0.123,
    "images": 4110,
    "bytes": 614051,
    "seconds_left": 3754.0,
    "acc": 0.5432,
}
LONG = "samc, from the stream alone, in true bytes, split-mini-imagenet, seed 3"


def shown(width, *names):
    """What a display of some runs looks like, line by line."""
    console = Terminal(file=io.StringIO(), force_terminal=True, width=width)
    with live_progress(console) as display:
        for name in names:
            Bar(display, name).tell(**TOLD)
        plain = Terminal(file=io.StringIO(), width=width)
        plain.print(display.make_tasks_table(display.tasks))
    return [line.rstrip() for line in plain.file.getvalue().splitlines()]


def test_at_60_columns_acc_and_time_left_are_there():
    assert shown(60, "samc, seed 0") == ["samc, seed 0   33 %  task 12/20  ACC 54.3  1:02:34 left"]


def test_what_matters_least_goes_first():
    kept = {width: {part for part in ("left", "ACC", "task", "━", "loss", "step", "bytes") if part in line}
            for width in range(30, 160) for line in shown(width, "samc")}  # fmt: skip
    assert kept[30] == {"left"}
    assert kept[159] == {"left", "ACC", "task", "━", "loss", "step", "bytes"}
    order = ["left", "ACC", "task", "loss", "step", "bytes"]
    for width, parts in kept.items():  # a bar is there where there is room for it, a loss may take less
        assert parts - {"━"} == set(order[: len(parts - {"━"})]), width
        assert "━" not in parts or "task" in parts
        assert "━" in parts or "step" not in parts


@pytest.mark.parametrize("width", range(20, 140, 7))
def test_no_line_is_wider_than_the_terminal(width):
    lines = shown(width, "samc, seed 0", LONG)
    assert len(lines) == 2
    assert max(map(len, lines)) <= width


def test_a_long_name_keeps_its_beginning_and_its_end():
    _, line = shown(60, "gem, seed 1", LONG)
    assert re.fullmatch(r"samc, from.*….* seed 3   33 %  ACC 54.3  1:02:34 left", line)
    assert [shortened("0123456789", room) for room in (10, 9, 2, 1)] == ["0123456789", "0123…6789", "0…", "…"]


def test_parts_of_one_rank_go_from_the_left():
    assert fitted([(0, "a"), (1, "b"), (1, "c")], 4) == "a  c"


def test_what_has_not_been_told_is_not_shown():
    assert details({"status": "starting", "loss": None}) == [(0, "starting")]
    assert details({"task": 1, "tasks": 2, "images": 0, "bytes": 0}) == [(2, "task 1/2")]


def test_without_a_terminal_each_task_is_a_line_at_once(capsys):
    stream, seen = coloured_squares(per_class=10), []

    class Reading(ProgressNarrator):
        def evaluated(self, tasks_learnt, accuracies):
            super().evaluated(tasks_learnt, accuracies)
            seen.append(capsys.readouterr().err)

    with live_progress(Terminal(file=io.StringIO())) as display:
        run(stream, GEM(6, (3, 12, 12)), watchers=[Reading(Bar(display, "gem").tell)])
    assert seen[0] == ""  # the untrained network is no task
    for number, line in enumerate(seen[1:], start=1):
        words = rf"gem: task {number}/3  ACC \d+\.\d  loss \d+\.\d\d  [\d,]+ images in [\d,]+ bytes  \d:\d\d left\n"
        assert re.fullmatch(words, line), line


def test_a_log_that_nobody_reads_stops_no_run(monkeypatch):
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Closed())
    with live_progress(Terminal(file=io.StringIO())) as display:
        record = run(
            coloured_squares(per_class=10),
            Finetune(6, (3, 12, 12)),
            watchers=[ProgressNarrator(Bar(display, "x").tell)],
        )
    assert len(record.accuracy_matrix) == 4


def test_a_run_is_the_same_whoever_looks_on():
    plain = run(coloured_squares(per_class=10), GEM(6, (3, 12, 12)))
    watched = run(coloured_squares(per_class=10), GEM(6, (3, 12, 12)), watchers=[ProgressNarrator(lambda **_: None)])
    assert watched.accuracy_matrix == plain.accuracy_matrix


def test_a_task_of_one_step_has_a_line_too():
    told = []
    run(coloured_squares(per_class=10), Finetune(6, (3, 12, 12)), batch_size=1000, watchers=[
        ProgressNarrator(lambda **fields: told.append(fields))])  # fmt: skip
    ended = [fields for fields in told if "ended" in fields]
    assert [fields["ended"] for fields in ended] == [1, 2, 3]
    assert all("loss" in fields and "seconds_left" not in fields for fields in ended)


def test_runs_are_named_by_what_makes_them_differ():
    def names(*items, **part):
        return list(name_runs({item: ITEMS[item].jobs(quick=True, **part) for item in items}).values())

    assert names("first-task", models=["finetune"], seeds=[0]) == ["finetune"]
    assert names("first-task", models=["finetune", "gem"], seeds=[3]) == ["gem", "finetune"]
    assert names("first-task", models=["gem"], seeds=[0, 1]) == ["gem, seed 0", "gem, seed 1"]
    assert names("threshold", seeds=[0])[:2] == ["threshold 0.7", "threshold 0.6"]
    assert names("memory-size", models=["gem"], seeds=[0])[0] == "memory-size gem, 10"
    assert names("first-task", "gallery", models=["samc"], seeds=[0]) == [
        "first-task samc, from the stream alone",
        "samc, our default",
        "gallery samc, from the stream alone",
    ]


def test_streams_are_named_where_there_are_several():
    jobs = ITEMS["first-task"].jobs(["split-cifar100", "split-cifar10"], seeds=[0], models=["gem"])
    assert list(name_runs({"first-task": jobs}).values()) == ["gem, split-cifar100", "gem, split-cifar10"]


@pytest.mark.slow
@pytest.mark.parametrize("quick", [True, False])
def test_no_two_runs_share_a_name(quick):
    items = {name: item.jobs(quick=quick) for name, item in ITEMS.items()}
    names = name_runs(items)
    assert set(names) == {job for jobs in items.values() for job in jobs.values()}
    assert len(set(names.values())) == len(names)


def test_the_board_names_runs_and_counts_them():
    jobs = ITEMS["first-task"].jobs(quick=True, models=["gem"], seeds=[0, 1])
    names = name_runs({"first-task": jobs})
    console = Terminal(file=io.StringIO())
    with live_progress(console) as display:
        board = ProgressBoard(console, display, names, 1)
        for job in names:
            board.began(job)
            board.failed(job, ValueError("a\nb"))
    assert console.file.getvalue() == "1/2  gem, seed 0: failed: a b\n2/2  gem, seed 1: failed: a b\n"


@pytest.mark.slow
def test_reproduce_writes_a_line_per_task_with_the_run_s_name(capsys, tmp_path):
    from samc.cli import main

    with pytest.raises(SystemExit):
        main(["reproduce", "first-task", "--quick", "--models", "finetune", "--device", "cpu", "--out", str(tmp_path)])
    out, err = capsys.readouterr()
    begun = [line.split("  ACC")[0] for line in progress_lines(err)]
    assert sorted(begun) == [f"finetune, seed {seed}: task {task}/3" for seed in (0, 1) for task in (1, 2, 3)]
    assert re.search(r"^2/2  finetune, seed [01]: ACC \d", out, flags=re.M)
