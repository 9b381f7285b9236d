"""A finished run is continued with new tasks: its learner goes on, old tasks are tested too, mistakes are one line."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
import torch

import samc
from run_makers import gone_on
from samc import metrics
from samc.errors import DataError
from samc.experiments.continuing import Earlier, continued_config
from samc.experiments.jobs import Job, learn, make_job
from samc.learners import LEARNERS, load
from samc.protocol import Watcher
from samc.record import RunRecord
from samc.streams import open_stream
from samc.streams.joining import following, joined
from test_checkpoints import but_for_seconds, finish, left, same_state, wait_for
from test_loggers import read_csv, read_jsonl

KILLS = int(os.environ.get("SAMC_KILLS", "3"))
CPU = torch.device("cpu")
SHORT = {"eec": {"encoder_steps": 2}, "samc": {"preset": "paper", "autoencoder": "stream", "autoencoder_steps": 2}}


def save_npz(path, classes=4, per_class=6, side=8, seed=0, channels=3):
    """Classes that differ in the place of a bright row."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(classes), per_class)
    x = rng.integers(0, 100, (len(y), side, side, channels), dtype=np.uint8)
    x[np.arange(len(y)), y % side] += 150
    x = x[..., 0] if channels == 1 else x
    np.savez(path, x=x, y=y, x_test=x[::2], y_test=y[::2])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with data sets and the runs of some methods on the first of them."""
    folder = tmp_path_factory.mktemp("continued")
    save_npz(folder / "first.npz")
    save_npz(folder / "second.npz", seed=1)
    save_npz(folder / "third.npz", classes=3, seed=2)
    save_npz(folder / "small.npz", side=6)
    save_npz(folder / "grey.npz", channels=1)
    return folder


@pytest.fixture
def here(place, monkeypatch, command):
    monkeypatch.chdir(place)
    return command


def begun(place, model, **given):
    """The folder of a finished run of a method, learnt once."""
    settings = {"backbone": "mlp", "lr": 0.01, **SHORT.get(model, {}), **given}
    name = hashlib.sha256(json.dumps([model, settings]).encode()).hexdigest()[:8]
    folder = place / f"{model}-{name}"
    if not (folder / "record.json").exists():
        job = make_job({"model": model, "dataset": f"npz:{place / 'first.npz'}", "n_tasks": 2, **settings})
        outcome = learn(replace(job, keep_memory=True), None, CPU)
        outcome.record.save(folder)
        for file, content in outcome.files.items():
            (folder / file).write_bytes(content)
    return folder


def continuing(folder, dataset, tested=True, **given):
    config = continued_config(RunRecord.load(folder), {"dataset": f"npz:{dataset}", **given})
    return Job(config, keep_memory=True, continues=Earlier.at(folder, tested=tested))


class StopError(Exception):
    """What a power cut would be."""


class StopAfter(Watcher):
    def __init__(self, steps):
        self.left = steps

    def step(self, task, number, x, stats):
        self.left -= 1
        if not self.left:
            raise StopError


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_every_method_goes_on_as_by_hand_and_after_a_crash(name, place, tmp_path):
    """As `samc.load` and a loop of one's own would, with the same accuracies; interrupted or not."""
    folder, new = begun(place, name), place / "second.npz"
    outcome = learn(continuing(folder, new, n_tasks=2), None, CPU)
    by_hand, rows = load(folder), []
    tasks = list(following(open_stream(f"npz:{new}", n_tasks=2), 2, 4))
    known = [*open_stream(f"npz:{place / 'first.npz'}", n_tasks=2), *tasks]

    def accuracies():
        return [float((by_hand.predict(task.test_x, task.id) == task.test_y).double().mean()) for task in known]

    for task in tasks:
        by_hand.declare(task.id, task.classes)
    rows.append(accuracies())
    for task in tasks:
        by_hand.begin_task(task)
        for x, y in task.batches(10):
            by_hand.observe(x, y, task.id)
        by_hand.end_task(task)
        rows.append(accuracies())
    before, record = RunRecord.load(folder), outcome.record
    assert record.accuracy_matrix == [*([*row, None, None] for row in before.accuracy_matrix[:2]), *rows]
    assert rows[0][:2] == before.accuracy_matrix[2]
    assert record.acc == np.mean(rows[-1])
    assert record.memory == by_hand.memory_report()
    (tmp_path / "learner").write_bytes(outcome.files["learner.safetensors"])
    assert same_state(load(tmp_path / "learner"), by_hand)
    from samc.checkpoints import Checkpoints

    with pytest.raises(StopError):
        learn(continuing(folder, new, n_tasks=2), None, CPU, [StopAfter(3)], Checkpoints(tmp_path, "1"))
    again = learn(continuing(folder, new, n_tasks=2), None, CPU, (), Checkpoints(tmp_path, "1"))
    assert but_for_seconds(again.record) == but_for_seconds(record)
    assert again.files == outcome.files
    assert hashlib.sha256((folder / "record.json").read_bytes()).hexdigest() == record.continues["record"]


def test_the_record_says_what_it_continues_and_has_all_tasks(here, place):
    folder = begun(place, "er")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    code, out, err = here("continue", folder, "--dataset", "npz:second.npz", "--n-tasks", 2, "--out", "two")
    assert (code, err) == (0, "")
    assert "learnt as tasks 2 to 3; class c of the new data set is class 4 + c" in out
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    old, record = RunRecord.load(folder), RunRecord.load(place / "two")
    assert [row[:2] for row in record.accuracy_matrix[:3]] == old.accuracy_matrix
    assert [row[2:] for row in record.accuracy_matrix[:2]] == [[None, None]] * 2
    assert record.fingerprint["class_order"] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert record.fingerprint["stream"] == "npz:first.npz, then npz:second.npz"
    assert record.fingerprint["training_images"] == [12] * 4
    assert record.fingerprint["batch_size"] == old.fingerprint["batch_size"]
    assert record.memory["images_per_task"] == [10] * 4
    assert record.continues["record"] == hashlib.sha256(before["record.json"]).hexdigest()
    assert (record.continues["first_task"], record.continues["first_class"]) == (2, 4)
    assert record.config["lr"] == old.config["lr"]
    assert record.fwt == pytest.approx(metrics.forward_transfer(old.accuracy_matrix))
    assert {path.name for path in (place / "two").iterdir()} >= {"record.json", "memory.samc", "learner.safetensors"}
    assert not (place / "two" / "run.json").exists()
    # and once more, with other sizes of tasks
    code, out, err = here("continue", "two", "--dataset", "npz:third.npz", "--batch-size", 4, "--out", "three")
    assert (code, err) == (0, "")
    assert "learnt as task 4; class c of the new data set is class 8 + c" in out
    third = RunRecord.load(place / "three")
    assert third.fingerprint["class_order"][4] == [8, 9, 10]
    assert third.fingerprint["batch_size"] == [10, 10, 10, 10, 4]
    assert [row[:4] for row in third.accuracy_matrix[:5]] == record.accuracy_matrix
    assert [stream["dataset"] for stream in third.continues["streams"]] == [old.config["dataset"], "npz:second.npz"]
    code, out, err = here("report", ".")
    assert (code, err) == (0, "")
    assert "nan" not in out
    learner = samc.load(place / "three")
    assert learner.model.heads.task_classes[4] == (8, 9, 10)
    # it is asked and exported as any other
    from PIL import Image

    Image.fromarray(np.load("third.npz")["x"][0]).save("image.png")
    code, out, _ = here("predict", "three", "--task", 4, "image.png")
    # a class of the new data keeps the name that it has there
    assert (code, out.strip()) in [(0, f"image.png: class {label}, {label - 8}") for label in (8, 9, 10)]
    code, out, _ = here("export", "three", "--torchscript", "three.pt")
    assert (code, "11 logits out" in out) == (0, True)


def test_a_continuation_is_logged_from_its_first_step(here, place):
    folder, logs = begun(place, "er"), ("--log", "jsonl", "--log", "csv", "--log", "csv")
    code, out, err = here("continue", folder, "--dataset", "npz:second.npz", "--n-tasks", 2, *logs, "--out", "logged")
    assert (code, err) == (0, "")
    assert out.endswith("log: logged/log.jsonl\nlog: logged/log.csv\n")
    entries, record = read_jsonl(place / "logged"), RunRecord.load(place / "logged")
    assert list(read_csv(place / "logged")) == [entry["step"] for entry in entries] == [0, 2, 4]
    assert [entry["task"] for entry in entries] == [2, 3, 4]
    for entry, row in zip(entries, record.accuracy_matrix[2:], strict=True):
        assert [entry[f"accuracy/task {number}"] for number in (1, 2, 3, 4)] == row
    assert entries[-1]["ACC"] == record.acc


def test_tests_within_old_tasks_stay_in_the_record(place):
    folder = begun(place, "er", test_every=1, batch_size=6)
    before = RunRecord.load(folder)
    record = learn(continuing(folder, place / "second.npz", n_tasks=2), None, CPU).record
    assert [len(tests) for tests in before.between] == [1, 1]
    assert record.between[:2] == before.between
    assert [[len(test) for test in tests] for tests in record.between[2:]] == [[3], [4]]
    assert record.lowest_accuracy == metrics.lowest_accuracy(
        record.accuracy_matrix, [*before.between, *record.between[2:]]
    )


def test_a_common_budget_is_shared_among_old_and_new_tasks(place):
    folder = begun(place, "er", memory_bytes=str(8 * 193))
    assert RunRecord.load(folder).memory["images_per_task"] == [4, 4]
    record = learn(continuing(folder, place / "second.npz", n_tasks=2), None, CPU).record
    assert record.memory["images_per_task"] == [2] * 4
    assert record.memory["memory_bytes"] == 8 * 193
    with pytest.raises(samc.UserError, match=r"bytes for each of 10, cannot hold one image; raise it"):
        learn(continuing(begun(place, "er", memory_bytes=str(8 * 193)), place / "many.npz", n_tasks=8), None, CPU)


@pytest.fixture(autouse=True, scope="module")
def many(place):
    save_npz(place / "many.npz", classes=300, per_class=2, seed=4)


def test_labels_of_two_bytes_where_new_classes_need_them(place, tmp_path):
    folder = begun(place, "er")
    from samc.checkpoints import Checkpoints

    job = continuing(folder, place / "many.npz", n_tasks=3)
    outcome = learn(job, None, CPU)
    (tmp_path / "learner").write_bytes(outcome.files["learner.safetensors"])
    learner = samc.load(tmp_path / "learner")
    assert (learner.num_classes, learner.memory.label_type.itemsize) == (304, 2)
    assert outcome.record.memory["images_per_task"] == [10] * 5
    assert outcome.record.memory["budget_bytes"] == 10 * 194
    for task, classes in learner.model.heads.task_classes.items():
        assert set(learner.memory.recall(task)[2].tolist()) <= set(classes)
    with pytest.raises(StopError):
        learn(job, None, CPU, [StopAfter(5)], Checkpoints(tmp_path, "1"))
    again = learn(job, None, CPU, (), Checkpoints(tmp_path, "1"))
    assert again.files == outcome.files


def test_without_old_tests_the_record_has_the_new_tasks_and_says_so(here, place):
    folder = begun(place, "er")
    shutil.copytree(folder, place / "moved")
    content = json.loads((place / "moved" / "record.json").read_text())
    content["config"]["dataset"] = "npz:gone.npz"
    (place / "moved" / "record.json").write_text(json.dumps(content))
    code, _, err = here("continue", "moved", "--dataset", "npz:second.npz", "--out", "none")
    assert code == 2
    assert err.startswith(f"samc: the images that {place / 'moved'} was tested on are not at hand (gone.npz is not the")
    assert err.endswith("; put them back, or leave those tests out: --no-old-tests\n")
    assert not (place / "none").exists()
    save_npz(place / "gone.npz", seed=9)
    code, _, err = here("continue", "moved", "--dataset", "npz:second.npz", "--out", "none")
    assert (code, "npz:gone.npz has other images by now" in err) == (2, True)
    code, out, _ = here("continue", "moved", "--dataset", "npz:second.npz", "--no-old-tests", "--out", "partly")
    assert (code, "not tested: the 2 tasks that were learnt before" in out) == (0, True)
    record = RunRecord.load(place / "partly")
    assert record.fingerprint["stream"] == "npz:second.npz, after 2 tasks"
    assert (len(record.accuracy_matrix), record.fingerprint["class_order"]) == (2, [[4, 5, 6, 7]])
    assert record.notes[-1] == "not tested: the 2 tasks that were learnt before"
    assert record.memory["images_per_task"] == [10, 10, 10]
    code, _, _ = here("continue", "partly", "--dataset", "npz:third.npz", "--out", "partly2")
    assert code == 0
    assert (
        RunRecord.load(place / "partly2").fingerprint["stream"] == "npz:second.npz, then npz:third.npz, after 2 tasks"
    )
    assert RunRecord.load(place / "partly2").fingerprint["class_order"] == [[4, 5, 6, 7], [8, 9, 10]]


def test_a_run_from_python_is_continued_without_its_tests(here, place, tmp_path):
    x, y = np.load(place / "first.npz")["x"], np.load(place / "first.npz")["y"]
    samc.run([(x, y)], samc.ER(image_shape=(3, 8, 8), backbone="mlp"), folder=place / "python")
    code, _, err = here("continue", "python", "--dataset", "npz:second.npz", "--out", "after")
    assert (code, "(its record names no data set)" in err) == (2, True)
    assert here("continue", "python", "--dataset", "npz:second.npz", "--no-old-tests", "--out", "after")[0] == 0
    assert RunRecord.load(place / "after").fingerprint["class_order"] == [[4, 5, 6, 7]]


def damaged(folder):
    content = bytearray((folder / "learner.safetensors").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "learner.safetensors").write_bytes(content)


def without_learner(folder):
    (folder / "learner.safetensors").unlink()


def without_record(folder):
    (folder / "record.json").unlink()


def half_a_record(folder):
    content = (folder / "record.json").read_text()
    (folder / "record.json").write_text(content[: len(content) // 2])


def interrupted(folder):
    (folder / "record.json").rename(folder / "run.json")


def other_learner(folder):
    samc.GEM(4, (3, 8, 8), backbone="mlp").save(folder / "learner.safetensors", replace=True)


def other_network(folder):
    learner = samc.load(folder)
    learner.settings = replace(learner.settings, backbone="vit-tiny")
    learner.save(folder / "learner.safetensors", replace=True)


def own_network(folder):
    learner = samc.load(folder)
    learner.settings = replace(learner.settings, backbone="mynets:small")
    learner.save(folder / "learner.safetensors", replace=True)


SECOND = ("--dataset", "npz:second.npz")
MISTAKES = [
    (None, (), "--dataset is missing: what is to be learnt; samc run --help names them"),
    (None, ("--dataset", "npz:none.npz"), "none.npz is not there"),
    (None, ("--dataset", "nonsense"), "unknown dataset 'nonsense'"),
    (None, ("--dataset", "npz:small.npz"), "has images of 3x6x6, the run has learnt 3x8x8; add --image-size 8"),
    (None, ("--dataset", "npz:grey.npz"), "has images of 1x8x8, the run has learnt 3x8x8; convert them"),
    (None, (*SECOND, "--n-tasks", "9"), "npz:second.npz can be cut into 1 to 4 tasks, got n-tasks 9"),
    (None, (*SECOND, "--batch-size", "0"), "batch-size is at least 1, got 0"),
    (None, (*SECOND, "--out", "wrong"), "wrong already holds a run; choose another --out or remove it"),
    (None, (*SECOND, "--device", "abacus"), "abacus"),
    (None, (*SECOND, "--checkpoint-every", "x"), "--checkpoint-every is a number of steps or of seconds"),
    (None, (*SECOND, "--log", "jsonlines"), "'jsonlines'"),
    (None, (*SECOND, "--lr", "1"), "No such option: --lr"),
    (damaged, SECOND, "learner.safetensors is damaged (its content does not match its checksum); take another copy"),
    (without_learner, SECOND, "wrong holds no learner.safetensors, which runs of earlier versions did not leave"),
    (without_record, SECOND, "record.json is not there; give the folder of a run"),
    (half_a_record, SECOND, "record.json is not a run's record"),
    (interrupted, SECOND, "wrong is not finished; go on with: samc run --resume wrong"),
    (other_learner, SECOND, "is of another run than the record beside it; put its own back"),
    (other_network, SECOND, "holds no whole learner (it has fewer weights than its network)"),
    (own_network, SECOND, "has a network of your own, mynets:small"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "arguments", "message"), MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(change, arguments, message, here, place):
    shutil.rmtree(place / "wrong", ignore_errors=True)
    shutil.copytree(begun(place, "er"), place / "wrong")
    if change:
        change(place / "wrong")
    before = sorted(place.rglob("*"))
    out = () if "--out" in arguments else ("--out", "new")
    code, out, err = here("continue", "wrong", *arguments, *out)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert sorted(place.rglob("*")) == before


def test_a_folder_that_is_no_run(here, place):
    begun(place, "er")  # `.` holds runs, whichever tests came before
    for name, message in (("nowhere", "nowhere is not there"), (".", "name one of its runs, such as ")):
        code, _, err = here("continue", name, *SECOND, "--out", "new")
        assert (code, err.count("\n"), message in err) == (2, 1, True)


def test_a_pretrained_autoencoder_does_not_meet_its_own_images(place, monkeypatch):
    """Weights that were made with a data set are refused for a stream of its images."""
    folder = begun(place, "samc")
    monkeypatch.setattr(type(load(folder).settings), "on", lambda self, stream, source: replace(self, lr=9.0))
    with pytest.raises(samc.UserError, match="this run's autoencoder was pretrained on the images of npz:"):
        learn(continuing(folder, place / "second.npz"), None, CPU)


def start(place, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "samc", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("kill", range(KILLS))
def test_a_continuation_that_is_killed_goes_on_to_the_same_record(kill, place):
    """SIGKILL at a random moment; the last one is told to stop instead, and says how to go on."""
    folder, name = begun(place, "samc"), f"killed-{kill}"
    how = (folder, "--dataset", "npz:many.npz", "--n-tasks", 5, "--checkpoint-every", 1, "--device", "cpu", "--out")
    if not (place / "whole").exists():
        assert finish(start(place, "continue", *how, "whole"))[0] == 0
    process = start(place, "continue", *how, name)
    wait_for(process, "run.json", place / name)
    if kill == KILLS - 1:
        wait_for(process, "checkpoint-*", place / name)
        process.send_signal(signal.SIGTERM)
        code, _, err = finish(process)
        assert code == 128 + signal.SIGTERM
        assert err.endswith(f"; go on with: samc run --resume {name}\n")
        code, _, err = finish(start(place, "continue", *how, name))
        assert (code, err) == (
            2,
            f"samc: {name} holds a run that was interrupted; go on with: samc run --resume {name}\n",
        )
    else:
        time.sleep(random.Random(kill).random())
        process.kill()
        finish(process)
    gone_on(place / name, lambda name: finish(start(place, "run", "--resume", name)))
    assert left(place / name) == left(place / "whole")


def test_what_was_continued_must_still_be_there_to_go_on(here, place):
    folder = place / "leaving"
    shutil.copytree(begun(place, "er"), folder)
    job = continuing(folder, place / "second.npz")
    content = json.loads((folder / "record.json").read_text())
    (folder / "record.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="holds another run than the one that was continued; put that back, or begin"):
        learn(job, None, CPU)


# -- streams that follow each other, and what is known of them


def test_numbers_follow_those_before(place):
    first, second = (open_stream(f"npz:{place / name}.npz", n_tasks=2) for name in ("first", "second"))
    after = following(second, 5, 20)
    assert [task.id for task in after] == [5, 6]
    assert after.task_classes == ((20, 21), (22, 23))
    assert after.num_classes == 24
    for old, new in zip(second, after, strict=True):
        assert torch.equal(new.y, old.y + 20)
        assert torch.equal(new.test_y, old.test_y + 20)
        assert torch.equal(new.x, old.x)
        assert new.has_test
    both = joined([first, following(second, 2, 4)])
    assert [task.id for task in both] == [0, 1, 2, 3]
    assert both.class_names == (*"0123", *"0123")
    assert both.source == f"{first.source}, then {second.source}"
    assert joined([after]).name == "npz:second.npz, after 5 tasks"
    assert joined([following(second, 1, 4)]).name == "npz:second.npz, after 1 task"
    many = joined([replace(first, name="x" * 100)] * 50)
    assert (len(many.name) < 100, many.name.startswith("50 streams, sha256 ")) == (True, True)


def test_figures_of_a_matrix_with_gaps_by_hand():
    """Two tasks, then one more of which nothing was known before."""
    matrix = [[0.5, 0.4, None], [0.9, 0.5, None], [0.8, 0.9, 0.2], [0.7, 0.9, 0.6]]
    assert metrics.average_accuracy(matrix) == pytest.approx((0.7 + 0.9 + 0.6) / 3)
    assert metrics.backward_transfer(matrix) == pytest.approx(-0.2 / 2)
    assert metrics.forgetting(matrix) == pytest.approx(0.2 / 2)
    assert metrics.forward_transfer(matrix) == pytest.approx(0.1)  # of the second task alone
    assert metrics.forward_transfer([[None, None], [0.5, 0.5], [0.5, 0.5]]) == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record["accuracy_matrix"][1].__setitem__(0, None), "accuracy_matrix is"),
        (lambda record: record["accuracy_matrix"][2].__setitem__(1, None), "accuracy_matrix is"),
        (lambda record: record.__setitem__("continues", []), "continues is"),
        (lambda record: record.__setitem__("continues", {"record": "x"}), "continues is"),
        (lambda record: record["continues"].__setitem__("first_task", -1), "continues is"),
        (lambda record: record["continues"].__setitem__("streams", [3]), "continues is"),
        (lambda record: record["continues"].__setitem__("streams", [{"first_task": 0}]), "continues is"),
        (lambda record: record["continues"]["streams"][0].__setitem__("dataset", ["npz:x"]), "continues is"),
    ],
)
def test_a_changed_record_of_a_continuation_is_refused(change, message, place, tmp_path):
    record = learn(continuing(begun(place, "finetune"), place / "second.npz"), None, CPU).record
    content = json.loads(record.save(tmp_path).read_text())
    assert RunRecord.load(tmp_path) == record
    change(content)
    (tmp_path / "record.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=message):
        RunRecord.load(tmp_path)


def test_other_settings_of_an_earlier_stream_are_one_line(here, place, request):
    """A record that somebody has changed names data in a way that makes no sense."""
    folder = place / "changed"
    shutil.copytree(begun(place, "er"), folder)
    content = json.loads((folder / "record.json").read_text())
    jaxtyping.config.update("jaxtyping_disable", True)  # it meets our own checks, not the tests'
    request.addfinalizer(lambda: jaxtyping.config.update("jaxtyping_disable", False))
    for value in (-3, "x" * 3000, "natural\x1b[2J", "0,1"):
        content["config"]["class_order"] = value
        (folder / "record.json").write_text(json.dumps(content))
        code, _, err = here("continue", "changed", *SECOND, "--out", "new")
        assert (code, err.count("\n"), "\x1b" in err) == (2, 1, False)


def test_nothing_that_a_user_names_steers_the_terminal(here, place):
    odd = Path("odd\x1b[2J\x07\nrecord: forged")
    save_npz(place / "new\x1b]0;x\x07.npz")
    code, out, err = here("continue", begun(place, "er"), "--dataset", "npz:new\x1b]0;x\x07.npz", "--out", odd)
    assert (code, err) == (0, "")
    assert not any(character in out for character in "\x1b\x07")
    assert "record: odd\\x1b[2J\\x07 record: forged/record.json" in out
    assert sum(line.startswith("record:") for line in out.splitlines()) == 1
