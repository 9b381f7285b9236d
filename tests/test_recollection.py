"""What a run notes of its memory: true, and without the run noticing; and how far it has come, for who looks on."""

import json
import zlib

import numpy as np
import pytest

import samc
from samc.checkpoints import Checkpoints
from samc.errors import DataError
from samc.experiments.jobs import learn, make_job
from samc.experiments.progress_log import FILE as PROGRESS
from samc.experiments.progress_log import ProgressLog, read_progress
from samc.experiments.recollection import FILE, MOST_IMAGES, UNKNOWN, Recollector, nearest, read_recollection
from samc.memory.file import file_of
from samc.protocol import Watcher, learn_stream, run
from samc.stopping import Stopped
from samc.streams.joining import following
from toys import PLAIN_CONE, coloured_squares

PAPER = {"replay": "gem", "codec": "coo", "threshold": 0.5, "completion": "telea", "lr": 0.05, **PLAIN_CONE}
LEARNERS = {
    "samc, paper": lambda: samc.SAMC(6, (3, 12, 12), **PAPER),
    "samc, a gist": lambda: samc.SAMC(6, (3, 12, 12), **PAPER | {"codec": "gist:webp:5+cam"}),
    "samc, best": lambda: samc.SAMC(6, (3, 12, 12), lr=0.05),
    "er, all tasks together": lambda: samc.ER(6, (3, 12, 12), lr=0.05, memory_bytes="9KB"),
    "der": lambda: samc.DER(6, (3, 12, 12), lr=0.05),
    "er, one head": lambda: samc.ER(6, (3, 12, 12), lr=0.05, scenario="class"),
    "er, hidden boundaries": lambda: samc.ER(
        6, (3, 12, 12), lr=0.05, scenario="class", boundaries="hidden", memory_bytes="9KB"
    ),
    "icarl": lambda: samc.ICaRL(6, (3, 12, 12), lr=0.05),
    "gem": lambda: samc.GEM(6, (3, 12, 12), lr=0.05),
}


def stream():
    return coloured_squares(per_class=15)


@pytest.fixture(autouse=True, scope="module")
def all_images():
    """Of runs of nine steps, too: more than a hundredth of their time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("samc.experiments.recollection.STEPS_PER_IMAGE", 0.01)
        yield


def taken(learner):
    recollector = Recollector()
    record = run(stream(), learner, watchers=[recollector])
    return recollector.recollection(), record


def test_a_short_run_is_asked_little(monkeypatch):
    monkeypatch.setattr("samc.experiments.recollection.STEPS_PER_IMAGE", 4.0)
    noted, _ = taken(LEARNERS["gem"]())
    assert noted.task.tolist() == [0, 1, 2]  # one each, where nine steps have time for two
    assert noted.place.tolist() == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_the_run_does_not_notice(name):
    watched, alone = LEARNERS[name](), LEARNERS[name]()
    noted, record = taken(watched)
    assert noted is not None
    assert record.accuracy_matrix == run(stream(), alone).accuracy_matrix
    assert file_of(watched.memory) == file_of(alone.memory)
    for one, other in zip(watched.model.parameters(), alone.model.parameters(), strict=True):
        assert one.equal(other)
    assert watched.random.get_state().equal(alone.random.get_state())


@pytest.fixture(scope="module")
def paper():
    learner = LEARNERS["samc, paper"]()
    return learner, *taken(learner)


def test_notes_are_of_images_that_are_held(paper):
    learner, noted, _ = paper
    assert len(noted.label) == sum(learner.memory.images_per_task.values()) <= MOST_IMAGES
    for task in learner.memory.tasks:
        rows = noted.task == task
        np.testing.assert_array_equal(noted.label[rows], learner.memory.recall(task)[2][noted.place[rows]])


def test_now_is_what_the_network_says_of_the_image_as_it_is_replayed(paper):
    learner, noted, _ = paper
    for task in learner.memory.tasks:
        rows = np.flatnonzero(noted.task == task)
        dense = learner.dense_memory(task)
        np.testing.assert_allclose(noted.pixels[rows] / 255, dense.x.numpy(), atol=0.5 / 255 + 1e-6)
        answers = learner.predict(noted.pixels[rows], task).numpy()
        np.testing.assert_array_equal(noted.now[rows], answers)
    assert (noted.then != UNKNOWN).all()


def test_then_is_what_it_said_at_its_tasks_end():
    learner, said = LEARNERS["gem"](), {}

    class Asking(Watcher):
        def evaluated(self, tasks_learnt, accuracies):
            if tasks_learnt:
                task = tasks_learnt - 1
                said[task] = learner.predict(learner.memory.recall(task)[0], task).numpy()

    recollector = Recollector()
    run(stream(), learner, watchers=[Asking(), recollector])
    noted = recollector.recollection()
    for task, answers in said.items():
        np.testing.assert_array_equal(noted.then[noted.task == task], answers[noted.place[noted.task == task]])


def test_psnr_is_that_of_the_true_image(paper):
    learner, noted, _ = paper
    for row in range(0, len(noted.label), 5):
        task = stream()[int(noted.task[row])]
        masks = learner.memory.recall(task.id)[1]
        mask, errors = masks[noted.place[row]], []
        for image in task.x.numpy():
            if np.array_equal(image[:, mask], noted.pixels[row][:, mask]):  # kept pixels are exact
                errors.append(((image / 255 - noted.pixels[row] / 255) ** 2).mean())
        expected = [-10 * np.log10(error) if error else np.inf for error in errors]
        assert any(noted.psnr[row] == pytest.approx(decibels) for decibels in expected)


def test_saliency_is_the_map_by_which_pixels_were_kept(paper):
    _, noted, _ = paper
    seen = {}

    class Looking(Watcher):
        def step(self, task, number, x, stats):
            for image, found in zip(x.numpy(), stats.kept.maps, strict=True):
                seen[zlib.crc32(image.tobytes())] = found

    run(stream(), LEARNERS["samc, paper"](), watchers=[Looking()])
    known = {found.tobytes() for found in seen.values()}
    assert noted.salient.all()
    assert all(found.tobytes() in known for found in noted.saliency)


@pytest.mark.parametrize("name", ["er, one head", "er, hidden boundaries"])
def test_without_tasks_an_image_is_asked_about_alone(name):
    learner = LEARNERS[name]()
    noted, _ = taken(learner)
    pixels = np.concatenate([learner.memory.recall(task)[0] for task in learner.memory.tasks])
    assert sorted(set(noted.task.tolist())) == learner.memory.tasks
    np.testing.assert_array_equal(noted.now, learner.predict(pixels).numpy())
    assert np.isinf(noted.psnr).all()  # of whatever task the true image is
    assert set(noted.now.tolist()) <= set(range(6))


def test_whole_images_leave_no_pixels_and_raw_ones_are_exact():
    noted, _ = taken(LEARNERS["gem"]())
    assert len(noted.pixels) == 0
    assert np.isinf(noted.psnr).all()
    assert not noted.salient.any()


def test_the_nearest_is_found_where_it_was_kept():
    rng = np.random.default_rng(0)
    candidates = rng.integers(0, 256, (30, 3, 6, 6), dtype=np.uint8)
    masks = rng.random((5, 6, 6)) < 0.3
    images = np.where(masks[:, None], candidates[[3, 7, 7, 20, 29]], 0).astype(np.uint8)
    assert nearest(images, masks, candidates).tolist() == [3, 7, 7, 20, 29]


def test_a_file_gives_the_same_again(paper, tmp_path):
    _, noted, _ = paper
    (tmp_path / FILE).write_bytes(noted.pack())
    again = read_recollection(tmp_path / FILE)
    for name in ("task", "place", "label", "then", "now", "psnr", "salient", "saliency", "pixels"):
        np.testing.assert_array_equal(getattr(again, name), getattr(noted, name))


class Stopping(Watcher):
    """Has a run stop itself at a step of its second task, once."""

    def __init__(self):
        self.left = 1

    def step(self, task, number, x, stats):
        if task.id == 1 and number == 1 and self.left:
            self.left -= 1
            raise Stopped(2, "as told")


def test_a_run_that_goes_on_notes_the_same(paper, tmp_path):
    learner, recollector, stopping = LEARNERS["samc, paper"](), Recollector(), Stopping()
    checkpoints = Checkpoints(tmp_path, "1")
    with pytest.raises(Stopped):
        learn_stream(stream(), learner, 10, 1, [recollector, stopping], checkpoints=checkpoints)
    again, noted = Recollector(), paper[1]
    learn_stream(stream(), LEARNERS["samc, paper"](), 10, 1, [again, stopping], checkpoints=checkpoints)
    assert again.recollection().pack() == noted.pack()


# How far a run has come


def test_a_run_tells_how_far_it_has_come(tmp_path, monkeypatch):
    monkeypatch.setattr("samc.experiments.progress_log.EVERY", 0.0)
    learner = LEARNERS["gem"]()
    record = run(stream(), learner, watchers=[ProgressLog(tmp_path, fresh=True)])
    told = read_progress(tmp_path / PROGRESS)
    assert told.matrix == record.accuracy_matrix
    assert (told.model, told.stream, told.steps) == ("gem", "toy", [3, 3, 3])
    assert told.classes == [[0, 1], [2, 3], [4, 5]]
    assert told.class_name(5) == "class 5"
    assert sorted(told.points) == list(range(10))
    assert all(point.loss is not None for step, point in told.points.items() if step)
    last = told.points[9]
    assert (last.images, last.bytes) == (30, record.memory["memory_bytes"])


def test_steps_are_told_by_a_task_s_place_whatever_its_number(tmp_path, monkeypatch):
    monkeypatch.setattr("samc.experiments.progress_log.EVERY", 0.0)
    after = following(stream(), 5, 10)
    run(after, samc.GEM(16, (3, 12, 12), lr=0.05), watchers=[ProgressLog(tmp_path, fresh=True)])
    told = read_progress(tmp_path / PROGRESS)
    assert (told.steps, sorted(told.points)) == ([3, 3, 3], list(range(10)))


def test_a_line_that_is_not_all_there_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("samc.experiments.progress_log.EVERY", 0.0)
    run(stream(), LEARNERS["gem"](), watchers=[ProgressLog(tmp_path, fresh=True)])
    path = tmp_path / PROGRESS
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:5]) + lines[5][:20])
    assert read_progress(path).step == 3
    path.write_text(lines[0][:20])
    assert read_progress(path) is None


def test_a_run_begun_again_takes_the_place_of_the_first(tmp_path):
    for _ in range(2):
        run(stream(), LEARNERS["gem"](), watchers=[ProgressLog(tmp_path, fresh=True)])
    lines = [json.loads(line) for line in (tmp_path / PROGRESS).read_text().splitlines()]
    assert sum("model" in line for line in lines) == 1


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        '{"at": 1, "task": -1}',
        '{"at": 1, "loss": "<b>"}',
        '{"at": 1, "other": 1}',
        '{"at": 1, "tasks_learnt": 1, "accuracies": [0.5], "images": 1, "bytes": 1}',
        '{"at": 1, "model": "er"}',
        "no json",
        "[" * 100_000,
    ],
)
def test_lines_that_make_no_sense_are_refused(tmp_path, line):
    path = tmp_path / PROGRESS
    run(stream(), LEARNERS["gem"](), watchers=[ProgressLog(tmp_path, fresh=True)])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DataError, match="does not say how far a run has come"):
        read_progress(path)


@pytest.mark.slow
def test_a_job_leaves_its_notes_and_its_progress(tmp_path):
    job = make_job({"model": "er", "n_tasks": 2, "samples_per_task": 20}, keep_memory=True)
    outcome = learn(job, None, samc.device.choose("cpu"), checkpoints=Checkpoints(tmp_path))
    (tmp_path / FILE).write_bytes(outcome.files[FILE])
    assert len(read_recollection(tmp_path / FILE).label) == 20
    assert len(read_progress(tmp_path / PROGRESS).rows) == 3
