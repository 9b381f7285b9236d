"""Logs of a run: the record's figures in every format, whatever happens to the run, and never at its cost."""

import csv
import errno
import json
import os
import sys
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image

from samc.checkpoints import Checkpoints
from samc.errors import ConfigError
from samc.experiments.jobs import learn, make_job
from samc.learners import ER, GEM, Finetune
from samc.loggers import LOGGERS, Entry, checked_loggers
from samc.loggers.base import NOTHING
from samc.loggers.text_file import PICTURES
from samc.loggers.watcher import EVERY, Logs, LogWatcher
from samc.memory import Budget, EpisodicMemory, full_selection, parse_codec
from samc.memory.notebook import GAP, gallery
from samc.protocol import Watcher, learn_stream
from toys import coloured_squares

FILES = ("csv", "jsonl")
STREAM = coloured_squares(per_class=20)
# of forty steps per task


class RunInterruptedError(Exception):
    pass


class Interrupting(Watcher):
    """Ends a run at some step of its second task, or at the end of that task's test."""

    def __init__(self, number):
        self.number = number

    def step(self, task, number, x, stats):
        if (task.id, number) == (1, self.number):
            raise RunInterruptedError

    def evaluated(self, tasks_learnt, accuracies):
        if (tasks_learnt, self.number) == (2, None):
            raise RunInterruptedError


def log_run(folder, *names, learner=None, more=(), every=None, warn=None):
    """A small run that is logged; with `every` it is saved after so many steps."""
    folder.mkdir(exist_ok=True)
    watcher = LogWatcher(Logs(folder, names), {"lr": 0.05}, warn or pytest.fail)
    checkpoints = Checkpoints(folder, str(every)) if every else None
    with closing(watcher):
        return learn_stream(STREAM, learner or er(), 1, 1, [watcher, *more], checkpoints=checkpoints)


def er():
    return ER(6, (3, 12, 12), lr=0.05, backbone="mlp")


def read_jsonl(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def read_csv(folder):
    """By step, the numbers by name."""
    found = {}
    with (folder / "log.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            assert row["name"] not in found.setdefault(int(row["step"]), {}), "a row is repeated"
            found[int(row["step"])][row["name"]] = float(row["value"])
    return found


def without_seconds(entries):
    return [{name: value for name, value in entry.items() if "seconds" not in name} for entry in entries]


def as_entries(by_step):
    return [{"step": step, **scalars} for step, scalars in by_step.items()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody interrupted: its folder and its record."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, log_run(folder, *FILES)


def test_the_log_has_the_records_figures(whole):
    folder, record = whole
    entries = read_jsonl(folder)
    steps = [entry["step"] for entry in entries]
    assert steps == [*range(0, 120 + 1, EVERY)]  # forty images per task, one at a time
    ends = [entry for entry in entries if "accuracy/task 1" in entry]
    assert [entry["step"] for entry in ends] == [0, 40, 80, 120]
    assert [entry["task"] for entry in entries] == [0, *(1 for _ in range(4)), *(2 for _ in range(4)), 3, 3, 3, 3]
    assert [[entry[f"accuracy/task {task}"] for task in (1, 2, 3)] for entry in ends] == record.accuracy_matrix
    assert (ends[-1]["ACC"], ends[-1]["BWT"]) == (record.acc, record.bwt)
    assert ends[2]["ACC"] == pytest.approx(np.mean(record.accuracy_matrix[2][:2]))
    assert ends[2]["BWT"] == pytest.approx(record.accuracy_matrix[2][0] - record.accuracy_matrix[1][0])
    assert ends[-1]["memory/bytes"] == record.memory["memory_bytes"]
    assert ends[-1]["memory/images"] == sum(record.memory["images_per_task"])
    parts = {name.partition("/")[2]: value for name, value in ends[-1].items() if name.startswith("bytes/")}
    assert parts == record.memory["bytes_by_part"]
    phases = {name.partition("/")[2] for name in ends[-1] if name.startswith("seconds/")}
    assert phases == set(record.seconds) - {"evaluation"}  # the protocol's own, of which a watcher knows nothing
    assert ends[-1]["seconds/total"] <= record.seconds["total"]


def test_both_text_files_say_the_same(whole):
    entries = [{name: value for name, value in entry.items() if name != "pictures"} for entry in read_jsonl(whole[0])]
    assert as_entries(read_csv(whole[0])) == entries


def test_the_loss_is_the_mean_of_its_steps(tmp_path):
    losses = []

    class Noting(Watcher):
        def step(self, task, number, x, stats):
            losses.append(float(stats.loss))

    log_run(tmp_path, "jsonl", more=[Noting()])
    shown = [entry["loss"] for entry in read_jsonl(tmp_path) if "loss" in entry]
    assert shown == pytest.approx([np.mean(losses[start : start + EVERY]) for start in range(0, 120, EVERY)])


def test_the_memory_s_pictures_are_files_that_the_log_names(whole):
    folder, _ = whole
    named = [entry["pictures"]["gallery"] for entry in read_jsonl(folder) if "pictures" in entry]
    assert named == [f"{PICTURES}/gallery-{step:07d}.png" for step in (40, 80, 120)]
    sizes = [size_of(folder / name) for name in named]
    assert sizes == [(10 * 12 + 9 * GAP, tasks * 12 + (tasks - 1) * GAP) for tasks in (1, 2, 3)]


def size_of(path):
    with Image.open(path) as picture:
        return picture.size


def test_a_gallery_is_a_line_per_task():
    memory = EpisodicMemory(parse_codec("raw", (3, 4, 4)), 4, Budget(10**6))
    images = np.random.default_rng(0).integers(0, 256, (3, 3, 4, 4), dtype=np.uint8)
    memory.add(0, images[:1], full_selection(1, 4, 4), np.array([0]))
    memory.add(1, images[1:], full_selection(2, 4, 4), np.array([1, 2]))
    picture = gallery(memory)
    assert picture.shape == (8 + GAP, 8 + GAP, 3)
    assert np.array_equal(picture[:4, :4], images[0].transpose(1, 2, 0))
    assert (picture[:4, 4:] == 255).all()
    assert (picture[4 : 4 + GAP] == 255).all()
    assert np.array_equal(picture[4 + GAP :, 4 + GAP :], images[2].transpose(1, 2, 0))


def test_a_method_without_a_memory_has_no_picture(tmp_path):
    log_run(tmp_path, *FILES, learner=Finetune(6, (3, 12, 12), backbone="mlp"))
    assert not (tmp_path / PICTURES).exists()
    assert all(entry.get("memory/images", 0) == 0 for entry in read_jsonl(tmp_path))


@pytest.mark.parametrize("names", [FILES, ("tensorboard",), ("wandb",)])
def test_logging_changes_nothing(names, tmp_path, monkeypatch, whole):
    pytest.importorskip(names[0]) if names != FILES else None
    monkeypatch.setenv("WANDB_MODE", "offline")

    def draws():
        return torch.get_rng_state().tolist(), str(np.random.get_state())  # Python's own are drawn by type checks

    before = draws()
    record = log_run(tmp_path, *names)
    assert draws() == before
    plain = learn_stream(STREAM, er(), 1, 1)
    assert record.accuracy_matrix == plain.accuracy_matrix == whole[1].accuracy_matrix
    assert record.memory == plain.memory


@pytest.mark.parametrize("number", [0, 4, 15, 27, 38, None])
@pytest.mark.parametrize("every", [7, 16])
def test_a_run_that_goes_on_repeats_no_line(number, every, tmp_path, whole):
    with pytest.raises(RunInterruptedError):
        log_run(tmp_path, *FILES, more=[Interrupting(number)], every=every)
    held = (tmp_path / "log.jsonl").read_bytes()
    log_run(tmp_path, *FILES, every=every)
    assert (tmp_path / "log.jsonl").read_bytes().startswith(held)  # what was there stays as it was
    assert without_seconds(read_jsonl(tmp_path)) == without_seconds(read_jsonl(whole[0]))
    assert without_seconds(as_entries(read_csv(tmp_path))) == without_seconds(as_entries(read_csv(whole[0])))
    totals = [entry["seconds/total"] for entry in read_jsonl(tmp_path) if "seconds/total" in entry]
    assert all(earlier <= later for earlier, later in pairwise(totals))


def test_half_a_line_is_written_anew(tmp_path, whole):
    with pytest.raises(RunInterruptedError):
        log_run(tmp_path, *FILES, more=[Interrupting(24)], every=10)
    for name in ("log.jsonl", "log.csv"):  # as a power cut may leave it: the checkpoint is of step 60
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:-5])
    log_run(tmp_path, *FILES, every=10)
    assert without_seconds(read_jsonl(tmp_path))[-6:] == without_seconds(read_jsonl(whole[0]))[-6:]
    assert [step for step in read_csv(tmp_path) if step > 60] == [70, 80, 90, 100, 110, 120]


def test_another_run_in_the_folder_begins_its_log_anew(tmp_path, whole):
    for name in ("log.jsonl", "log.csv"):
        (tmp_path / name).write_text('{"step": 1000}\n')
    log_run(tmp_path, *FILES)
    assert without_seconds(read_jsonl(tmp_path)) == without_seconds(read_jsonl(whole[0]))
    assert list(read_csv(tmp_path)) == list(read_csv(whole[0]))


def test_a_log_that_is_asked_for_when_a_run_goes_on_begins_there(tmp_path):
    with pytest.raises(RunInterruptedError):
        log_run(tmp_path, "jsonl", more=[Interrupting(24)], every=10)
    log_run(tmp_path, *FILES, every=10)
    assert list(read_csv(tmp_path)) == [70, 80, 90, 100, 110, 120]


def test_a_full_disk_costs_a_log_and_no_run(tmp_path, whole):
    (tmp_path / "log.csv").symlink_to("/dev/full")
    warned = []
    record = log_run(tmp_path, *FILES, warn=warned.append)
    assert record.accuracy_matrix == whole[1].accuracy_matrix
    reason = "(No space left on device); the run went on"
    assert warned == [f"the log csv in {tmp_path} has been given up {reason}"]
    assert without_seconds(read_jsonl(tmp_path)) == without_seconds(read_jsonl(whole[0]))


def test_a_disk_that_takes_a_part_is_full(tmp_path, monkeypatch):
    logger = LOGGERS["csv"](tmp_path, {}, resumed=False)

    class Narrow:
        def write(self, content):
            return len(content) - 1

    logger.file, file = Narrow(), logger.file
    with pytest.raises(OSError, match="No space left"):
        logger.write(Entry(1, {"loss": 1.0}))
    file.close()


def test_a_log_that_cannot_be_made_costs_no_run(tmp_path):
    (tmp_path / "log.jsonl").mkdir()
    warned = []
    assert log_run(tmp_path, "jsonl", warn=warned.append).acc > 0
    assert warned == [f"the log jsonl in {tmp_path} has been given up (Is a directory); the run went on"]


def test_names_of_a_method_s_own_cannot_break_a_file(tmp_path):
    class Odd(GEM):
        def extra_parts(self):
            return {'a,"b\n\x1b[31m': 3}

    log_run(tmp_path, *FILES, learner=Odd(6, (3, 12, 12), backbone="mlp"))
    shown = 'bytes/a,"b \\x1b[31m'
    assert read_csv(tmp_path)[120][shown] == 3
    assert read_jsonl(tmp_path)[-1][shown] == 3


# through other packages


def test_tensorboard_reads_the_same(tmp_path, whole):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    log_run(tmp_path, "tensorboard")
    found = accumulators.EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    for name in ("loss", "ACC", "accuracy/task 2", "bytes/colours"):
        shown = {event.step: event.value for event in found.Scalars(name.replace(" ", "_"))}
        assert shown == pytest.approx({entry["step"]: entry[name] for entry in read_jsonl(whole[0]) if name in entry})
    pictures = found.Images("gallery")
    assert [picture.step for picture in pictures] == [40, 80, 120]
    assert (pictures[-1].width, pictures[-1].height) == size_of(whole[0] / PICTURES / "gallery-0000120.png")


def test_tensorboard_goes_on_without_a_repeated_event(tmp_path, whole):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with pytest.raises(RunInterruptedError):
        log_run(tmp_path, "tensorboard", more=[Interrupting(27)], every=16)
    log_run(tmp_path, "tensorboard", every=16)
    steps = [event.step for path in (tmp_path / "tensorboard").glob("events*") for event in scalars(accumulators, path)]
    assert sorted(steps) == [entry["step"] for entry in read_jsonl(whole[0]) if "loss" in entry]


def test_a_full_disk_costs_tensorboards_events_and_no_more(tmp_path, whole, monkeypatch):
    """One line of warning: nothing fails elsewhere, such as in a thread, which would be a traceback."""
    records = pytest.importorskip("tensorboard.summary.writer.record_writer")
    write, count = records.RecordWriter.write, []

    def full(self, data):
        count.append(data)
        if len(count) > 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, data)

    monkeypatch.setattr(records.RecordWriter, "write", full)
    warned = []
    record = log_run(tmp_path, "tensorboard", warn=warned.append)
    assert record.accuracy_matrix == whole[1].accuracy_matrix
    reason = "(No space left on device); the run went on"
    assert warned == [f"the log tensorboard in {tmp_path} has been given up {reason}"]
    assert len(count) == 6


def scalars(accumulators, path):
    found = accumulators.EventAccumulator(str(path))
    found.Reload()
    return found.Scalars("loss")


def wandb_records(path):
    """The records of an offline run's file: LevelDB's log format, whose blocks of 32 KiB hold pieces with a header."""
    from wandb.proto import wandb_internal_pb2

    content, place, piece = path.read_bytes(), 7, b""
    while place + 7 <= len(content):
        if 2**15 - place % 2**15 < 7:  # no header fits into the rest of a block
            place += 2**15 - place % 2**15
            continue
        length, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        piece += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or the last piece of one
            record = wandb_internal_pb2.Record()
            record.ParseFromString(piece)
            yield record
            piece = b""


def read_wandb(folder):
    """Every history line of the offline runs in a folder, and the ids of the runs."""
    lines, ids = [], []
    for path in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        for record in wandb_records(path):
            if record.HasField("run"):
                ids.append(record.run.run_id)
            if record.HasField("history"):
                items = {"/".join(item.nested_key) or item.key: item.value_json for item in record.history.item}
                lines.append({name: json.loads(value) for name, value in items.items()})
    return lines, ids


def test_wandb_offline_holds_the_same_and_goes_on_under_its_id(tmp_path, whole, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    with pytest.raises(RunInterruptedError):
        log_run(tmp_path, "wandb", more=[Interrupting(27)], every=16)
    log_run(tmp_path, "wandb", every=16)
    lines, ids = read_wandb(tmp_path)
    expected = read_jsonl(whole[0])
    assert [line["_step"] for line in lines] == [entry["step"] for entry in expected]
    assert [line.get("loss") for line in lines] == [entry.get("loss") for entry in expected]
    assert lines[-1]["ACC"] == expected[-1]["ACC"]
    assert lines[-1]["gallery/_type"] == "image-file"
    assert len(ids) == 2
    assert len(set(ids)) == 1


def test_a_marker_that_is_damaged_costs_no_run(tmp_path):
    pytest.importorskip("tensorboard")
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / "tensorboard" / "last-step.json").write_text("[1")
    logger = LOGGERS["tensorboard"](tmp_path, {}, resumed=True)
    assert logger.last == NOTHING
    logger.close()


# at the door


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_package_is_one_line_with_the_remedy(command, name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    code, _, err = command("run", "--log", "csv", "--log", name, "--out", tmp_path / "here")
    assert (code, err.count("\n")) == (2, 1)
    assert err.endswith(f"pip install 'samc[{name}]'\n")
    assert not (tmp_path / "here").exists()


def test_a_log_of_no_kind_is_one_line(command, tmp_path):
    code, _, err = command("run", "--log", "jsonlines", "--out", tmp_path / "here")
    assert code == 2
    assert err == "samc: unknown log 'jsonlines': did you mean 'jsonl'? known: csv, jsonl, tensorboard, wandb\n"


def test_wandb_without_an_account_asks_nobody(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="give wandb login, or set WANDB_MODE=offline"):
        checked_loggers(("wandb",))


def test_warnings_of_logs_are_notes_of_a_run(tmp_path):
    (tmp_path / "log.csv").symlink_to("/dev/full")
    job = make_job({"model": "finetune", "dataset": "split-synthetic", "n_tasks": 1, "samples_per_task": 20})
    outcome = learn(job, None, torch.device("cpu"), logs=Logs(tmp_path, ("csv",)))
    assert any("the log csv" in note and "No space left" in note for note in outcome.notes)


@pytest.mark.slow
def test_the_command_writes_logs_and_goes_on_with_them(command, tmp_path, monkeypatch):
    from samc.engine import Engine

    monkeypatch.chdir(tmp_path)
    step, made = Engine.step, []

    def interrupt(engine, gradient, lr):
        made.append(1)
        if len(made) == 15:
            os.kill(os.getpid(), 15)
        step(engine, gradient, lr)

    small = ("--model", "er", "--n-tasks", 2, "--samples-per-task", 120, "--checkpoint-every", 5, "--device", "cpu")
    monkeypatch.setattr(Engine, "step", interrupt)
    code, _, err = command("run", *small, "--log", "csv", "--log", "jsonl", "--log", "csv", "--out", "here")
    assert (code, "go on with: samc run --resume here" in err) == (143, True)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    code, out, _ = command("run", "--resume", "here")
    assert code == 0
    assert "log: here/log.csv\nlog: here/log.jsonl\n" in out
    assert [entry["step"] for entry in read_jsonl(tmp_path / "here")] == [0, 10, 12, 22, 24]
    assert list(read_csv(tmp_path / "here")) == [0, 10, 12, 22, 24]


@pytest.mark.slow
def test_seeds_side_by_side_have_their_own_logs(tmp_path):
    from samc.experiments.local import LocalProcesses

    given = {"model": "finetune", "dataset": "split-synthetic", "n_tasks": 1, "samples_per_task": 20}
    jobs = [make_job({**given, "seed": seed}) for seed in (0, 1)]
    folders = {job: tmp_path / str(job.config.seed) for job in jobs}
    for folder in folders.values():
        folder.mkdir()
    executor = LocalProcesses(2, "cpu", threads=1, logs=lambda job: Logs(folders[job], ("jsonl",)))
    ends = dict(executor.run(iter(jobs), None))
    for job, folder in folders.items():
        assert read_jsonl(folder)[-1]["ACC"] == ends[job].record.acc
