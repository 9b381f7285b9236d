"""`samc reproduce`: what each item needs, and a command that may be killed, shared and given again."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

from samc.errors import ConfigError
from samc.experiments import local
from samc.experiments.items import ALL, COO, ITEMS, select_items
from samc.experiments.jobs import learn
from samc.experiments.record_store import RecordStore
from samc.experiments.specification import DOMAIN_STREAMS, EMBEDDED, STREAMS

RUN = ("reproduce", "first-task", "--quick", "--models", "finetune", "--seeds", "0-2", "--device", "cpu", "--jobs", "2")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A folder that one command has filled, without anybody in its way."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert started(folder).wait() == 0
    return folder


def started(folder, *more):
    """The command in a process of its own."""
    command = [sys.executable, "-m", "samc", *RUN, "--out", str(folder), *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def anybody_in(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def records(folder):
    return sorted(path.parent.name for path in folder.rglob("record.json") if path.stat().st_size)


def content(folder):
    """Every file with its bytes and the time that it was written at."""
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


def table(folder):
    return (folder / "first-task.csv").read_bytes()


@pytest.mark.slow
def test_every_item_knows_its_runs():
    for item in ITEMS.values():
        full, quick = item.jobs(), item.jobs(quick=True)
        assert {stream for stream, _, _ in full} <= {*STREAMS, *DOMAIN_STREAMS}
        assert {stream for stream, _, _ in quick} == {item.embedded}
        assert all(job.config.samples_per_task is None for job in full.values())
        assert {label for _, label, _ in quick} or item.name == "grid"
    assert len(ITEMS["table1"].jobs(["split-cifar100"])) == 15 * 5
    ten = {variant.paper for _, variant, _ in ITEMS["table1"].jobs() if variant.paper}
    assert ten == {"finetune", "ewc", "lwf", "icarl", "gem", "er", "mer", "ebm", "eec", "samc"}


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["samc"], {"samc"}),  # a row's own name, though others contain it
        (["The paper's TEXT", "gem"], {"samc, the paper's text", "gem"}),
        (["rule", "in true bytes"], {"samc, from the stream alone, ER's rule", COO.label}),
        (["zero"], set()),
    ],
)
def test_rows_are_named_in_full_or_in_part(names, labels):
    jobs = ITEMS["table1"].jobs(["split-cifar100"], seeds=[0], rows=names)
    assert {variant.label for _, variant, _ in jobs} == labels
    of_all = ITEMS["table1"].jobs(["split-cifar100"], seeds=[0])
    assert all(of_all[key] == job for key, job in jobs.items())


def test_a_row_keeps_its_name_where_its_method_is_left_out():
    assert ITEMS["table1"].jobs(["split-cifar100"], seeds=[0], models=["mer"], rows=["er"]) == {}


def test_a_command_learns_the_rows_that_are_named(command, tmp_path):
    given = ("--quick", "--seeds", "0", "--out", tmp_path, "--dry-run")
    assert command("reproduce", "table2", *given, "--row", "zero", "--row", "rule")[1].startswith("2 runs,")
    assert command("reproduce", "table2", *given)[1].startswith("6 runs,")


@pytest.mark.slow
def test_items_share_runs():
    of = {name: {job.name for job in ITEMS[name].jobs(["split-cifar100"]).values()} for name in ITEMS}
    assert len(of["table1"] & of["table2"]) == 5  # the paper's SAMC
    assert of["images-stored"] == of["threshold"]
    assert of["first-task"] <= of["table1"]
    assert len(of["threshold"] & of["table1"]) == 3
    assert not of["grid"] & of["table1"]  # which are judged on other images


@pytest.mark.slow
def test_the_grid_never_sees_the_test_images():
    for stream in STREAMS:
        jobs = ITEMS["grid"].jobs([stream])
        assert {job.config.tested_on for job in jobs.values()} == {"held-out"}
        assert {job.config.settings.lr for job in jobs.values() if job.config.model == "er"} == {
            0.003,
            0.01,
            0.03,
            0.1,
            0.3,
            1.0,
        }


def test_all_is_everything_but_the_grid_unless_quick():
    assert [item.name for item in select_items(["all"])] == list(ALL)
    assert [item.name for item in select_items(["all", "table1"], quick=True)] == [*ALL, "grid"]
    with pytest.raises(ConfigError, match="did you mean 'table1'"):
        select_items(["tabel1"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tabel1",), "unknown item 'tabel1': did you mean 'table1'?"),
        (("table1", "--datasets", "cifar"), "unknown dataset 'cifar': did you mean 'split-cifar"),
        (("table1", "--models", "gems"), "unknown model 'gems': did you mean 'gem'?"),
        (("table1", "--quick", "--datasets", "split-cifar10"), "leave --datasets or --quick out"),
        (("table1", "--quick", "--jobs", "0"), "--jobs is at least 1, got 0"),
        (("table1", "--quick", "--engine", "rai"), "unknown engine 'rai': did you mean 'ray'?"),
        (("table1", "--quick", "--executor", "rai"), "unknown engine 'rai': did you mean 'ray'?"),
        (("table1", "--quick", "--gpus", "0.2"), "--address and --gpus are for --executor ray"),
        (("table1", "--seeds", "4-0"), "a range goes upwards; write 0-4"),
        (("table1", "--seeds", ""), "--seeds cannot be ''"),
        (("table1", "--models", ""), "unknown model ''"),
        (("table1", "--models", "joint"), "no run of table1 is of these --datasets, --models and --row"),
        (("table1", "--models", "er", "--row", "gem"), "no run of table1 is of these --datasets, --models and --row"),
        (("table1", "--row", "the papers text"), 'did you mean "samc, the paper\'s text"? known: samc; samc, the'),
        (("table1", "--row", " "), "unknown row ' '"),
        (("table1", "threshold", "--row", "0.3", "--row", "zero"), "unknown row 'zero'"),
        (("theory", "--dry-run", "--datasets", "split-cifar10"), "no run of theory is of these --datasets"),
        (("table1", "--quick", "--dry-run", "--jobs", "0"), "--jobs is at least 1, got 0"),
    ],
)
def test_mistakes_are_one_line(command, tmp_path, arguments, words):
    code, _, err = command("reproduce", *arguments, "--out", tmp_path / "out")
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_missing_data_is_one_line_before_anything_is_run(command, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "learn", lambda *_: pytest.fail("a run was begun"))
    where = ("--data-dir", tmp_path / "nothing", "--out", tmp_path / "out", "--device", "cpu")
    code, _, err = command("reproduce", "table1", "--datasets", "split-cifar100", *where)
    assert code == 2
    assert "samc data fetch cifar100" in err
    assert err.count("\n") == 1


def test_a_dry_run_runs_and_writes_nothing(command, tmp_path):
    code, out, _ = command("reproduce", "table1", "--quick", "--dry-run", "--out", tmp_path / "out")
    assert code == 0
    assert "28 runs, 0 of them done" in out  # 15 rows of two seeds; two rows are one here
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_part_of_an_item_does_not_cost_the_rest_of_its_table(command, undisturbed, tmp_path):
    shutil.copytree(undisturbed, tmp_path / "out")
    some = ("--quick", "--models", "finetune", "--seeds", "0", "--out", tmp_path / "out")
    assert command("reproduce", "table1", *some)[0] == 0
    table = (tmp_path / "out" / "table1.md").read_text()
    assert "| finetune | 2 |" in table
    assert "| gem | not run |" in table


@pytest.mark.slow
def test_a_run_is_that_of_its_job(undisturbed):
    ((key, job), *_) = ITEMS["first-task"].jobs(quick=True, models=["finetune"], seeds=[0]).items()
    record = RecordStore(undisturbed).find(job)
    assert key[0] == EMBEDDED
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))  # as each of two jobs has
    try:
        assert learn(job, None, torch.device("cpu")).record.accuracy_matrix == record.accuracy_matrix
    finally:
        torch.set_num_threads(1)


@pytest.mark.slow
def test_killed_in_the_middle_and_started_again_the_table_is_the_same(undisturbed, tmp_path):
    process = started(tmp_path)
    deadline = time.monotonic() + 300
    while not records(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert 0 < len(records(tmp_path)) < 3
    first = min(path.stat().st_mtime_ns for path in tmp_path.rglob("record.json"))
    assert started(tmp_path).wait() == 0
    assert records(tmp_path) == ["seed0", "seed1", "seed2"]
    assert min(path.stat().st_mtime_ns for path in tmp_path.rglob("record.json")) == first
    assert table(tmp_path) == table(undisturbed)


@pytest.mark.slow
def test_told_to_end_it_closes_what_it_has_started(tmp_path):
    process = started(tmp_path)
    deadline = time.monotonic() + 300
    while not list(tmp_path.rglob(".claimed")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.terminate()
    assert process.wait() == 128 + signal.SIGTERM
    while anybody_in(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)  # what Python itself started besides is gone a moment later
    assert not anybody_in(process.pid)


def test_a_folder_s_name_is_no_markup(command, tmp_path):
    code, out, err = command("reproduce", "table1", "--quick", "--dry-run", "--out", tmp_path / "a[/b]")
    assert (code, err) == (0, "")
    assert out == f"28 runs, 0 of them done, in {tmp_path / 'a[/b]'}\n"


@pytest.mark.slow
def test_two_commands_share_a_folder_and_the_work(undisturbed, tmp_path):
    both = [started(tmp_path), started(tmp_path)]
    assert [process.wait() for process in both] == [0, 0]
    assert records(tmp_path) == ["seed0", "seed1", "seed2"]
    assert table(tmp_path) == table(undisturbed)
    assert not list(tmp_path.rglob(".claimed"))


@pytest.mark.slow
def test_the_page_of_results(command, undisturbed, tmp_path):
    before = content(undisturbed)
    code, out, err = command("results", undisturbed, "--quick", "--page", tmp_path / "docs" / "results.md")
    assert (code, err, out) == (0, "", f"{tmp_path / 'docs' / 'results.md'}\n")
    assert content(undisturbed) == before
    page = (tmp_path / "docs" / "results.md").read_text()
    assert "first-task.png" in page
    assert "## Not run yet" in page
    assert "`samc reproduce table2 --quick` |" in page
    code, _, err = command("results", tmp_path, "--page", tmp_path / "page.md")
    assert code == 2
    assert "holds no run of an item" in err


@pytest.mark.slow
def test_without_a_page_tables_and_figures_are_written_again(command, undisturbed, tmp_path, monkeypatch):
    store = tmp_path / "store"
    shutil.copytree(undisturbed, store)
    monkeypatch.chdir(tmp_path)
    (store / "first-task.png").unlink()
    assert command("results", store, "--quick", "--page", "page.md")[0] == 0
    assert "first-task.png has not been drawn" in (tmp_path / "page.md").read_text()
    code, out, _ = command("results", store, "--quick")
    assert code == 0
    assert (store / "first-task.png").exists()
    assert out.splitlines()[-1] == "docs/results.md"
    assert "](../store/first-task.png)" in (tmp_path / "docs" / "results.md").read_text()
    (tmp_path / "file").touch()
    code, _, err = command("results", store, "--quick", "--page", "file/page.md")
    assert (code, err) == (2, "samc: cannot write file/page.md: File exists; choose another --page\n")
