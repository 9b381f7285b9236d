"""`samc explain` and `samc.explain`: the prediction, where it comes from, and what memory it rests on."""

import base64
import io
import re

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

import samc
from samc.cli.small_pictures import SHADES, SIDE, pictures_in_text, shaded
from samc.errors import ConfigError, DataError
from samc.learners import LEARNERS
from samc.memory.selection import MAX_LEVEL, upsampled
from samc.models.classifier import in_mode
from samc.report.explanation import NEIGHBOURS, explain
from samc.report.explanation_picture import HEAT, draw_explanation, overlaid
from samc.saliency.grad_cam import as_bytes, saliency_map
from samc.state import file_of
from toys import coloured_squares

STREAM = coloured_squares(tasks=2, per_class=20)
QUICK = {
    "samc": {"autoencoder_steps": 2},
    "eec": {"encoder_steps": 5},
    "ewc": {"fisher_images": 5},
    "ebm": {"lr": 0.01},
}


def learnt(name, **settings):
    """A learner that has seen two small tasks."""
    learner = LEARNERS[name](4, (3, 12, 12), task_classes=STREAM.task_classes, **{**QUICK.get(name, {}), **settings})
    samc.run(STREAM, learner)
    return learner


@pytest.fixture(scope="module")
def er():
    return learnt("er")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run's folder, with an image beside it."""
    place = tmp_path_factory.mktemp("explained")
    samc.run(STREAM, samc.SAMC(4, (3, 12, 12), preset="paper:split-cifar10"), folder=place / "run")
    Image.fromarray(STREAM[0].test_x[0].permute(1, 2, 0).numpy()).save(place / "image.png")
    return place


def test_the_prediction_and_its_confidence_are_the_learner_s(er):
    for x, task in ((STREAM[0].test_x[3], 0), (STREAM[1].test_x[12], 1)):
        found = explain(er, x, task, class_names=STREAM.class_names)
        with torch.no_grad(), in_mode(er.answering.model, "eval"):
            shares = er.scores(er.as_images(x[None]), task)[0].double().softmax(0)
        assert found.label == int(er.predict(x[None], task))
        assert found.name == f"class {found.label}"
        assert found.confidence == pytest.approx(float(shares.max()))
        assert dict(found.confidences) == pytest.approx(
            {f"class {label}": float(share) for label, share in zip(STREAM[task].classes, shares, strict=True)}
        )
        assert [share for _, share in found.confidences] == sorted((float(share) for share in shares), reverse=True)


def test_the_map_is_grad_cam_s_for_the_predicted_class(er):
    x = STREAM[0].test_x[3]
    found = explain(er, x, 0)
    images = er.as_images(x[None])
    maps = as_bytes(saliency_map(er.answering.model, images, torch.tensor([found.label]), 0)).numpy()
    assert np.array_equal(found.saliency, upsampled(maps, 12, 12)[0] / MAX_LEVEL)
    assert np.array_equal(found.picture, x.permute(1, 2, 0).numpy())


def test_the_neighbours_are_those_of_the_smallest_angle(er):
    found = explain(er, STREAM[1].test_x[0], 1)
    memory = er.dense_memory(1)
    same = memory.x[memory.y == found.label]
    with torch.no_grad(), in_mode(er.answering.model, "eval"):
        features = [er.answering.model.pooled(er.answering.features(x)) for x in (found_image(er), same)]
    alike = F.cosine_similarity(*features)
    order = alike.argsort(descending=True, stable=True)[:NEIGHBOURS].tolist()
    assert found.remembered == len(same)
    assert [neighbour.alike for neighbour in found.neighbours] == pytest.approx(alike[order].tolist(), abs=1e-6)
    for neighbour, row in zip(found.neighbours, order, strict=True):
        assert np.array_equal(neighbour.picture, (255 * same[row]).round().byte().permute(1, 2, 0).numpy())
        assert neighbour.nbytes == 12 * 12 * 3 + 1
        assert neighbour.mask.all()


def found_image(learner):
    return learner.as_images(STREAM[1].test_x[:1])


def test_an_image_that_is_remembered_is_its_own_nearest(er):
    images, _, labels = er.memory.recall(0)
    for image, label in zip(images, labels, strict=True):
        found = explain(er, image, 0)
        if found.label == label:
            assert found.neighbours[0].alike == pytest.approx(1, abs=1e-5)
            assert np.array_equal(found.neighbours[0].picture, image.transpose(1, 2, 0))
            return
    pytest.fail("no remembered image is predicted right")


def test_so_many_neighbours_as_asked_for(er):
    x = STREAM[0].test_x[0]
    many = explain(er, x, 0, neighbours=100)
    assert len(many.neighbours) == many.remembered
    assert [len(explain(er, x, 0, neighbours=count).neighbours) for count in (0, 2)] == [0, 2]
    assert explain(er, x, 0, neighbours=0).remembered == many.remembered


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_every_method_is_explained_and_stays_as_it_is(name):
    learner = learnt(name)
    before = bytes(file_of("learner", learner.state_dict()))
    modes = [module.training for module in learner.model.modules()]
    found = explain(learner, STREAM[1].test_x[5], 1)
    assert bytes(file_of("learner", learner.state_dict())) == before
    assert [module.training for module in learner.model.modules()] == modes
    assert all(parameter.grad is None for parameter in learner.model.parameters())
    assert found.label == int(learner.predict(STREAM[1].test_x[5:6], 1))
    assert sum(share for _, share in found.confidences) == pytest.approx(1)
    if hasattr(learner, "memory"):
        assert found.remembered == int((learner.memory.recall(1)[2] == found.label).sum())
        assert len(found.neighbours) == min(NEIGHBOURS, found.remembered)
    else:
        assert (found.neighbours, found.remembered) == ((), None)
        assert found.lines()[1] == f"{type(learner).__name__} has no episodic memory that this could rest on"
    assert Image.open(io.BytesIO(draw_explanation(found))).format == "PNG"


def test_a_class_of_which_nothing_is_remembered():
    learner = learnt("er")
    x = STREAM[0].test_x[0]
    label = explain(learner, x, 0).label
    held = learner.memory.by_task[0]
    kept = [image for image, known in zip(held.images, learner.memory.labels(held.images), strict=True)
            if known != label]  # fmt: skip
    held.images.clear()
    held.images.extend(kept)
    found = explain(learner, x, 0, class_names=("a", "b", "c", "d"))
    assert (found.neighbours, found.remembered) == ((), 0)
    assert found.lines()[1] == f"the memory of task 1 holds no image of {'abcd'[label]}"
    assert draw_explanation(found)


def test_what_is_kept_of_a_neighbour_is_shown(folder):
    found = explain(samc.load(folder / "run"), folder / "image.png", 0)
    assert 0 < found.neighbours[0].mask.mean() < 1
    assert re.fullmatch(r"  1  -?\d\.\d\d alike, \d+ bytes, \d+% of it kept", found.lines()[2])
    full = draw_explanation(explain(samc.load(folder / "run"), folder / "image.png", 0, neighbours=0))
    assert Image.open(io.BytesIO(draw_explanation(found))).height > Image.open(io.BytesIO(full)).height


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_any_number_of_channels_is_shown(channels):
    learner = samc.ER(2, (channels, 12, 12), task_classes=[(0, 1)], backbone="mlp")
    x = torch.randint(0, 256, (6, channels, 12, 12), dtype=torch.uint8)
    learner.observe(x, torch.tensor([0, 1] * 3), 0)
    found = explain(learner, x[0], 0)
    assert found.picture.shape == (12, 12, 3 if channels == 3 else 1)
    assert draw_explanation(found).startswith(b"\x89PNG")
    assert pictures_in_text([found.picture], 80).plain.count("▀") == SIDE * SIDE // 2


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.zeros((12, 12), np.uint8), r"images are \(batch, 3, 12, 12\)"),
        (torch.zeros(2, 3, 12, 12), "one image is explained at a time; got 2"),
        (torch.full((3, 12, 12), 2.0), "float images are from 0 to 1"),
        ([1, 2], "an image is an array, a tensor or the path of a file; got list"),
        ("nowhere.png", "nowhere.png is not there"),
    ],
)
def test_images_that_cannot_be_explained(er, image, words):
    with pytest.raises(DataError, match=words):
        explain(er, image, 0)


def test_tasks_and_learners_that_are_none(er):
    with pytest.raises(ConfigError, match="task 7 has not been seen yet"):
        explain(er, STREAM[0].test_x[0], 7)
    with pytest.raises(ConfigError, match="explain takes a learner"):
        explain("runs/first", STREAM[0].test_x[0], 0)
    with pytest.raises(ConfigError, match="0 or more; got -1"):
        explain(er, STREAM[0].test_x[0], 0, neighbours=-1)


@pytest.mark.parametrize("given", [{}, {"boundaries": "hidden", "memory_bytes": "20KB"}])
def test_where_there_is_one_head_an_image_comes_without_a_task(command, tmp_path, given):
    """Its class is one of all that were seen, and what it rests on is remembered of any task."""
    learner = samc.ER(4, (3, 12, 12), scenario="class", **given)
    samc.run(STREAM, learner)
    x = STREAM[1].test_x[0]
    found = explain(learner, x)
    assert (found.task, found.label) == (None, int(learner.predict(x[None])))
    shares = learner.scores(learner.as_images(x[None]), 0)[0].double().softmax(0)
    assert [share for _, share in found.confidences] == pytest.approx(sorted(shares.tolist(), reverse=True))
    assert len(found.confidences) == 4
    labels = [learner.memory.labels(learner.memory.by_task[task].images) for task in learner.memory.tasks]
    assert found.remembered == int((np.concatenate(labels) == found.label).sum()) > 0
    with pytest.raises(ConfigError, match="an image comes without its task"):
        explain(learner, x, 1)
    learner.save(tmp_path / "one.safetensors")
    Image.fromarray(x.permute(1, 2, 0).numpy()).save(tmp_path / "x.png")
    asked = ("explain", tmp_path / "x.png", "--run", tmp_path / "one.safetensors", "--out", tmp_path / "why.png")
    code, out, _ = command(*asked)
    assert (code, f"{found.confidence:.1%} sure" in out) == (0, True)
    code, _, err = command(*asked, "--task", 0)
    assert (code, "drop --task" in err) == (2, True)


def test_of_a_class_that_is_not_remembered_no_task_is_named():
    learner = samc.ER(4, (3, 12, 12), scenario="class")
    learner.observe(STREAM[0].x[:10], STREAM[0].y[:10], 0)
    learner.memory.by_task.clear()
    assert explain(learner, STREAM[0].test_x[0]).basis.startswith("the memory holds no image of")


# how it is shown


def test_a_notebook_shows_the_picture_and_hostile_names_are_text(er):
    names = ('<script>"$x_\x1b[31m \u732b',) * 4
    found = explain(er, STREAM[0].test_x[0], 0, class_names=names)
    page = found._repr_html_()
    content, alt = re.fullmatch(r'<img src="data:image/png;base64,([^"]+)" alt="([^"]*)" style="[^"]+">', page).groups()
    assert base64.b64decode(content) == found._repr_png_() == draw_explanation(found)
    assert "<" not in alt
    assert "&lt;script&gt;" in alt
    assert repr(found).startswith("Explanation(")
    assert samc.explain is explain


def test_the_picture_is_small_and_the_same_each_time(er):
    found = explain(er, STREAM[0].test_x[0], 0)
    assert draw_explanation(found) == draw_explanation(found)
    assert len(draw_explanation(found)) < 60_000


def test_where_nothing_speaks_the_overlay_is_grey_and_where_most_does_it_is_hot(er):
    found = explain(er, STREAM[0].test_x[0], 0)
    shown = overlaid(found).astype(int)
    cold, hot = found.saliency == 0, found.saliency == 1
    assert cold.any()
    assert hot.any()
    assert (np.ptp(shown[cold], axis=1) == 0).all()
    grey = 0.8 * found.picture.mean(2)[hot][:, None]
    assert np.abs(shown[hot] - (0.15 * grey + 0.85 * 255 * np.array(HEAT(1.0)[:3]))).max() <= 1


def test_two_pixels_are_a_character():
    picture = np.zeros((SIDE, SIDE, 3), np.uint8)
    picture[0, 0], picture[1, 0] = (255, 0, 16), (1, 2, 3)
    text = pictures_in_text([picture, picture, picture], 2 * SIDE + 1)
    lines = text.plain.splitlines()
    assert len(lines) == SIDE // 2
    assert all(line.rstrip() == "▀" * SIDE + " " + "▀" * SIDE for line in lines)  # the third has no room
    assert str(text.spans[0].style) == "#ff0010 on #010203"


def test_shades_follow_the_map():
    levels = np.zeros((SIDE, SIDE))
    levels[:2, : SIDE // 2], levels[2:4] = 1, 0.5
    lines = shaded(levels)
    assert lines[0] == SHADES[-1] * (SIDE // 2) + " " * (SIDE // 2)
    assert lines[1] == SHADES[2] * SIDE
    assert lines[2:] == [" " * SIDE] * (SIDE // 2 - 2)


# the command


def test_the_command_writes_the_picture_and_says_why(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    code, out, err = command("explain", "image.png", "--run", "run", "--task", 0)
    assert (code, err) == (0, "")
    found = explain(samc.load("run"), "image.png", 0, class_names=STREAM.class_names)
    lines = out.splitlines()
    assert lines[0] == f"image.png: {found.lines()[0]}"
    assert lines[0].startswith("image.png: class ")
    assert lines[1] == f"what speaks for {found.name}:"
    assert lines[2 : 2 + SIDE // 2] == shaded(found.saliency)
    assert lines[2 + SIDE // 2 : -1] == found.lines()[1:]
    assert lines[-1] == "picture: explain.png"
    assert (folder / "explain.png").read_bytes() == draw_explanation(found)


def test_the_command_without_a_record_has_numbers(command, folder, tmp_path):
    learner = tmp_path / "alone.safetensors"
    learner.write_bytes((folder / "run" / "learner.safetensors").read_bytes())
    code, out, _ = command("explain", folder / "image.png", "--run", learner, "--task", 1, "--out", tmp_path / "x.png")
    assert code == 0
    assert re.search(r"image.png: class [23], ", out)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.png", "--run", "run", "--task", 0), "nowhere.png is not there"),
        (("run/record.json", "--run", "run", "--task", 0), "cannot read run/record.json as an image"),
        (("image.png", "--run", "run", "--task", 5), "task 5 has not been seen yet; known: [0, 1]"),
        (("image.png", "--run", "run", "--task", -1), "--task"),
        (("image.png", "--run", "nowhere", "--task", 0), "nowhere"),
        (("image.png", "--run", ".", "--task", 0), ". holds no learner.safetensors"),
        (("image.png", "--run", "image.png", "--task", 0), "image.png is damaged"),
        (("image.png", "--run", "run", "--task", 0, "--out", "x.jpg"), "--out is a picture's name that ends in .png"),
        (("image.png", "--run", "run", "--task", 0, "--out", "./image.png"), "would replace the image"),
        (("image.png", "--run", "run", "--task", 0, "--out", "no/x.png"), "cannot write no/x.png"),
        (("image.png", "--run", "run", "--task", 0, "--neighbours", 13), "--neighbours"),
        (("image.png", "--run", "run"), "--task"),
    ],
)
def test_every_mistake_is_one_line(command, folder, monkeypatch, arguments, words):
    monkeypatch.chdir(folder)
    before = (folder / "image.png").read_bytes()
    code, out, err = command("explain", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert (folder / "image.png").read_bytes() == before
