"""The audit passes what SAMC leaves and fails whatever was smuggled in; info and show say what is so."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from safetensors.numpy import load_file
from safetensors.numpy import save_file as save_tensors

from memory_makers import SPECS, filled, forged, smooth_images
from record_makers import record
from samc.errors import DataError
from samc.memory import Budget, EpisodicMemory, Selection, full_selection, parse_codec, select
from samc.memory.audit import audit
from samc.memory.container import KEY
from samc.memory.file import container_bytes, load
from samc.memory.search import RUN, count_runs, distinctive_runs, matching_originals, run_hashes
from samc.report.lettering import in_lines

MASKED = [spec for spec in SPECS if ("c" in spec and "jpeg" not in spec) or "bitmask" in spec]


@pytest.fixture
def samc(command, tmp_path, monkeypatch):
    """Calls the command line in an empty folder; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return command


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 24, 20)])
def test_an_honest_memory_passes(tmp_path, spec, shape):
    memory, images = filled(spec, shape)
    path = memory.save(tmp_path / "memory.samc")
    originals = np.concatenate([smooth_images(50, shape, 1), images])
    found = audit(path, originals)
    assert found.passed, found.verdict
    assert found.file_bytes == found.container_bytes + found.counted_bytes == path.stat().st_size
    assert found.verdict.startswith("passed: ")
    assert "\n" not in found.verdict
    if spec in MASKED:
        kept = np.mean([memory.recall(task)[1] for task in memory.tasks])
        assert found.dropped_share == pytest.approx(1 - kept)
        assert found.compared == 8
        coarsely = " but coarsely" if memory.codec.gist else ""
        seen = "(8 of them compared with their originals)"
        assert f"which cannot be had from the file{coarsely} {seen}" in found.verdict
        assert "only the originals can tell" in audit(path).verdict
    else:
        assert found.dropped_share == 0
        size = "8x8" if shape[1] == shape[2] else "8x7"  # 24x20, with 8 pixels along the longer side
        kept = {"@": f"whole images at {size} pixels, which come back enlarged",
                "crop": f"a window of {size} pixels of each image, which comes back enlarged"}  # fmt: skip
        (said,) = [words for sign, words in kept.items() if sign in spec] or ["whole images"]
        assert f"; 8 images; keeps {said}, nothing to hide" in found.verdict


def extra_tensor(path, images):
    save_tensors(
        load_file(path) | {"more": images.reshape(-1)},
        path,
        metadata=json.loads(path.read_bytes()[8 : container_bytes(path)])["__metadata__"],
    )


def extra_tensor_with_checksum(path, images):
    forged(path, load_file(path) | {"more": images.reshape(-1)})


def appended(path, images):
    path.write_bytes(path.read_bytes() + images.tobytes())


def in_the_labels_tensor(path, images):
    tensors = load_file(path)
    forged(path, tensors | {"labels": np.concatenate([tensors["labels"], images.reshape(-1)])})


def second_note(path, images):
    notes = json.loads(path.read_bytes()[8 : container_bytes(path)])["__metadata__"]
    save_tensors(load_file(path), path, metadata=notes | {"more": images[0].tobytes().hex()})


def within_the_note(path, images):
    forged(path, comment=images[0].tobytes().hex())


def between_the_words(path, images):
    """JSON allows spaces and tabs anywhere: a bit each."""
    raw, own = path.read_bytes(), container_bytes(path)
    bits = np.unpackbits(np.frombuffer(images[0].tobytes(), np.uint8)[:800])
    header = raw[8:own].rstrip()[:-1] + bytes(np.where(bits, 9, 32).astype(np.uint8)) + b"}"
    path.write_bytes(len(header).to_bytes(8, "little") + header + raw[own:])


def named_twice(path, images):
    raw, own = path.read_bytes(), container_bytes(path)
    hidden = json.dumps({KEY: images[0].tobytes().hex()}).encode()
    header = b'{"__metadata__":' + hidden + b"," + raw[9:own].rstrip()
    path.write_bytes(len(header).to_bytes(8, "little") + header + raw[own:])


def behind_an_image(path, images):
    """In the first blob, lengths and checksum made to fit."""
    tensors = load_file(path)
    end, sizes = int(tensors["sizes"][0]), tensors["sizes"].copy()
    hidden = images[0].reshape(-1)[:300]
    sizes[0] += len(hidden)
    blobs = np.concatenate([tensors["blobs"][:end], hidden, tensors["blobs"][end:]])
    forged(path, tensors | {"blobs": blobs, "sizes": sizes})


WAYS = (
    extra_tensor,
    extra_tensor_with_checksum,
    appended,
    in_the_labels_tensor,
    second_note,
    within_the_note,
    between_the_words,
    named_twice,
)


@pytest.mark.parametrize("smuggle", WAYS)
@pytest.mark.parametrize("spec", ["coo", "raw", "gist:webp:5+cam+deflate"])
def test_originals_smuggled_into_the_file_are_found(tmp_path, spec, smuggle):
    memory, images = filled(spec)
    path = memory.save(tmp_path / "memory.samc")
    assert audit(path, images).passed
    smuggle(path, images)
    for found in (audit(path), audit(path, images)):
        assert not found.passed
        assert found.verdict.startswith("FAILED: ")
        assert "\n" not in found.verdict


@pytest.mark.parametrize("spec", ["coo", "bitmask", "bitmask+deflate", "cam", "cam+deflate", "gist:thumb:4+cam"])
def test_bytes_behind_an_image_are_refused(tmp_path, spec):
    memory, images = filled(spec)
    path = memory.save(tmp_path / "memory.samc")
    behind_an_image(path, images)
    assert "remembered image does not match its own header" in audit(path).verdict


@pytest.mark.parametrize("spec", ["jpeg:30", "webp:30", "gist:webp:5+cam", "gist:jpeg:10+bitmask", "focus:2:jpeg:30",
                                  "jpeg:30@8", "webp:30@8", "focus:webp:30@8", "crop:8:jpeg:30"])  # fmt: skip
def test_bytes_behind_a_picture_are_found(tmp_path, spec):
    """Decoders of pictures stop at the end and do not mind what follows."""
    memory, images = filled(spec, (3, 32, 32))
    gist = spec.startswith("gist:")
    hidden = images[0, 0].tobytes()
    for held in memory.by_task.values():
        old = [image.blob for image in held.images]
        held.images.clear()
        for blob in old:
            picture, rest = memory.codec.split(blob) if gist else (blob, b"")
            start = memory.codec.length_bytes(len(picture + hidden)) if gist else b""
            held.images.append(memory.stored_image(start + picture + hidden + rest, b"\0"))
    path = memory.save(tmp_path / "memory.samc")
    assert "8 of 8 images carry bytes that their codec would not have written" in audit(path).verdict
    if gist:
        assert (
            "dropped pixels of 1 of the originals, the first of them number 0, are in the file as they were"
            in audit(path, images).verdict
        )


def test_a_picture_that_is_finer_than_its_codec_is_found(tmp_path):
    """WebP of quality 100 under a gist that calls itself webp:5; nothing else is wrong with the file."""
    memory, images = filled("gist:webp:5+cam", (3, 32, 32), tasks=(0,))
    fine = parse_codec("webp:100", (3, 32, 32)).encode(images, full_selection(4, 32, 32))
    for number, item in enumerate(list(memory.by_task[0].images)):
        pixels = memory.codec.split(item.blob)[1]
        blob = memory.codec.length_bytes(len(fine[number])) + fine[number] + pixels
        memory.by_task[0].images[number] = memory.stored_image(blob, item.label)
    found = audit(memory.save(tmp_path / "memory.samc"))
    assert "4 of 4 images carry bytes that their codec would not have written" in found.verdict


def test_pixels_that_are_not_where_they_claim_to_be_are_found(tmp_path):
    """The colours of kept pixels replaced by those of dropped ones: every length and every checksum is right."""
    memory, images = filled("bitmask", (3, 32, 32), tasks=(0,))
    honest = memory.recall(0)[1]
    moved = images.copy()
    for image, truth, mask in zip(moved, images, honest, strict=True):
        count = min(int(mask.sum()), int((~mask).sum()))
        rows, columns = (part[:count] for part in np.nonzero(mask))
        image[:, rows, columns] = truth[:, ~mask][:, :count]
    liar = EpisodicMemory(memory.codec, 20, Budget(100_000))
    nothing = np.zeros((len(moved), 1, 1), np.uint8), np.zeros(len(moved), np.uint16)
    liar.add(0, moved, Selection(*nothing, honest), np.zeros(len(moved), np.int64))
    found = audit(liar.save(tmp_path / "memory.samc"), images)
    assert "dropped pixels of 4 of the originals, the first of them number 0, are in the file" in found.verdict


@pytest.mark.parametrize(("spec", "passes"), [("gist:thumb:4+cam", True), ("gist:thumb:32+cam", False)])
def test_a_gist_that_keeps_everything_is_no_gist(tmp_path, spec, passes):
    memory, images = filled(spec, (3, 32, 32))
    found = audit(memory.save(tmp_path / "memory.samc"), images)
    assert found.passed == passes
    assert found.exact_share is not None
    if passes:
        assert found.exact_share < 0.1
    else:
        assert found.exact_share == 1
        assert "100% of the dropped values come back exactly" in found.verdict


def test_pixels_hidden_in_a_saliency_map_are_found(tmp_path):
    """A map as large as the image has room for a channel of it; the audit looks there too."""
    shape, grid = (3, 32, 32), (32, 32)
    memory, images = filled("cam", shape, tasks=(0,), grid=grid)
    assert audit(memory.save(tmp_path / "honest.samc"), images).passed
    selection, _ = select(images[:, 0], 0.5, 32, 32, memory.max_pixels)
    liar = EpisodicMemory(memory.codec, 20, Budget(100_000))
    liar.add(0, images, selection, np.zeros(len(images), np.int64))
    verdict = audit(liar.save(tmp_path / "liar.samc"), images).verdict
    assert "dropped pixels of 4 of the originals, the first of them number 0, are in the file" in verdict


def test_originals_that_are_not_this_memorys_are_a_mistake(tmp_path):
    path = filled("cam", (3, 32, 32))[0].save(tmp_path / "memory.samc")
    with pytest.raises(DataError, match=r"none of the images in .* is among the originals; give those"):
        audit(path, smooth_images(20, (3, 32, 32), 7))
    with pytest.raises(DataError, match=r"other images than the originals \(3x32x32 and 3x16x16\)"):
        audit(path, smooth_images(20, (3, 16, 16), 7))
    with pytest.raises(DataError, match="is not there"):
        audit(tmp_path / "absent")


def test_an_empty_memory_passes(tmp_path):
    path = EpisodicMemory(parse_codec("cam:4x4", (3, 32, 32)), 10, Budget(5000)).save(tmp_path / "memory.samc")
    assert audit(path, smooth_images(3, (3, 32, 32), 0)).passed


@pytest.mark.parametrize("shape", [(3, 6, 9), (1, 7, 8)])
def test_runs_are_found_as_a_loop_finds_them(shape):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (6, *shape), dtype=np.uint8)
    kept = {2: rng.random(shape[1:]) < 0.1, 4: np.ones(shape[1:], bool)}
    noise = rng.bytes(50)
    orders = [(1, 2, 0), (1, 2, 0)] if shape[0] == 3 else []
    piece = noise + images[1, 0].tobytes() + noise + images[2].transpose(1, 2, 0).tobytes() + images[4].tobytes()
    if orders:
        piece += images[5, ::-1].transpose(1, 2, 0).tobytes()
    known = distinctive_runs([np.frombuffer(piece, np.uint8)])
    expected = []
    for number, image in enumerate(images):
        dropped = ~kept.get(number, np.zeros(shape[1:], bool))
        lines = [(plane.tobytes(), dropped.reshape(-1)) for plane in image]
        if orders:
            value_dropped = np.repeat(dropped.reshape(-1), 3)
            lines += [(order.transpose(1, 2, 0).tobytes(), value_dropped) for order in (image, image[::-1])]
        found = {
            line[i : i + RUN]
            for line, gone in lines
            for i in range(len(line) - RUN + 1)
            if gone[i : i + RUN].all() and line[i : i + RUN] in piece
        }
        expected.append(len(found))
    assert count_runs(known, images, kept).tolist() == expected
    assert expected[1] > 0
    assert expected[0] == expected[3] == expected[4] == 0


def test_even_areas_ramps_and_repeated_colours_tell_nothing():
    even = [np.full(40, 7), np.arange(40), np.arange(80)[::-2], np.tile([10, 20, 30], 14), np.arange(40) // 9]
    assert len(distinctive_runs([piece.astype(np.uint8) for piece in even])) == 0
    noise = np.random.default_rng(0).integers(0, 256, 40).astype(np.uint8)
    assert len(distinctive_runs([noise, noise[:10]])) == 40 - RUN + 1
    assert len(np.unique(run_hashes(noise[None]))) == 40 - RUN + 1


def test_an_original_is_known_by_its_kept_pixels():
    originals = smooth_images(30, (3, 8, 8), 0)
    originals[11] = originals[4]
    mask = np.random.default_rng(0).random((8, 8)) < 0.3
    image = originals[4] * mask
    assert matching_originals(image, mask, originals).tolist() == [4, 11]
    image[:, mask] += 1
    assert matching_originals(image, mask, originals).tolist() == []
    assert matching_originals(image, mask & False, originals).tolist() == []


@pytest.mark.slow
def test_the_tools_on_what_a_run_leaves(samc, tmp_path):
    x = smooth_images(60, (3, 16, 16), 0).transpose(0, 2, 3, 1)
    np.savez("tiny.npz", x=x, y=np.arange(60) % 4)
    quick = ("--dataset", "npz:tiny.npz", "--n-tasks", 2, "--device", "cpu", "--codec", "coo")
    assert samc("run", "--model", "samc", *quick, "--out", "here")[0] == 0
    memory = load(tmp_path / "here" / "memory.samc")
    code, out, err = samc("memory", "info", "here")
    assert (code, err) == (0, "")
    for number in (memory.nbytes + container_bytes(tmp_path / "here" / "memory.samc"), *memory.nbytes_by_part.values()):
        assert f"{number:,}" in out
    for word in (memory.codec.spec, "colours", "positions", "container", "ever offered", "16x16"):
        assert word in out
    for file in ("here", "here/memory.samc"):
        code, out, err = samc("memory", "audit", file, "--against", "tiny.npz")
        assert (code, err) == (0, "")
        assert out.startswith("passed: ")
        assert out.count("\n") == 1
    code, out, _ = samc("memory", "show", "here", "--out", "look.png", "--per-task", 3)
    assert (code, out) == (0, "picture: look.png\n")
    assert min(cv2.imread("look.png").shape[:2]) > 200
    appended(tmp_path / "here" / "memory.samc", x)
    code, out, err = samc("memory", "audit", "here", "--against", "tiny.npz")
    assert (code, err) == (1, "")
    assert out.startswith("FAILED: here/memory.samc: ")
    assert samc("memory", "info", "here")[0] == 2


def test_mistakes_are_one_line_and_exit_2(samc, tmp_path):
    filled("cam", (3, 32, 32))[0].save("memory.samc")
    EpisodicMemory(parse_codec("cam:4x4", (3, 32, 32)), 10, Budget(5000)).save("empty.samc")
    Path("empty").mkdir()
    Path("runs/seed0").mkdir(parents=True)
    shutil.copy("memory.samc", "runs/seed0")
    np.savez("floats.npz", x=np.zeros((3, 32, 32, 3)))
    np.savez("others.npz", x=np.zeros((3, 32, 32, 3), np.uint8))
    for arguments, words in (
        (("info", "absent"), "absent is not there"),
        (("info", "floats.npz"), "floats.npz is not a whole memory file"),
        (("audit", "absent"), "absent is not there"),
        (("audit", "memory.samc", "--against", "absent.npz"), "--against absent.npz: no such file; give an npz file"),
        (("audit", "memory.samc", "--against", "npz:floats.npz"), "floats.npz: x is uint8"),
        (
            ("audit", "memory.samc", "--against", "split-cifar"),
            "or one of split-synthetic, split-cifar10",
        ),
        (("info", "empty"), "empty holds no memory.samc; name the folder of a run"),
        (("info", "runs"), "runs holds no memory.samc; name runs/seed0"),
        (("audit", "memory.samc", "--against", "floats.npz"), "x is uint8 (n, height, width, 1 or 3), got float64"),
        (("audit", "memory.samc", "--against", "others.npz"), "none of the images in memory.samc is among"),
        (("show", "empty.samc", "--out", "a.png"), "empty.samc remembers no image"),
        (("show", "memory.samc", "--out", "a.jpg"), "ends in .png, got a.jpg"),
        (("show", "memory.samc", "--out", "nowhere/a.png"), "nowhere/a.png"),
        (("show", "memory.samc"), "--out"),
    ):
        code, _, err = samc("memory", *arguments)
        assert code == 2, arguments
        assert err.startswith("samc: ")
        assert err.count("\n") == 1
        assert words in err
    for command in ("info", "show", "audit"):
        assert "Examples:" in samc("memory", command, "--help")[1]
    assert samc("memory", "info", "empty.samc")[0] == 0


def test_a_run_does_not_write_over_a_memory(samc, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "memory.samc").write_text("precious")
    code, _, err = samc("run", "--n-tasks", 2, "--samples-per-task", 20, "--out", "here")
    assert code == 2
    assert "here/memory.samc is there already; choose another --out" in err
    assert (tmp_path / "here" / "memory.samc").read_text() == "precious"


def test_classes_are_drawn_with_their_names(samc, tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    captions, text = [], Axes.text

    def noted(axes, x, y, words, **how):
        captions.append(words)
        return text(axes, x, y, words, **how)

    monkeypatch.setattr(Axes, "text", noted)
    memory, _ = filled("raw", (3, 8, 8), tasks=[0], count=3)
    labels = memory.labels(memory.by_task[0].images).tolist()
    memory.save(tmp_path / "memory.samc")
    assert samc("memory", "show", "memory.samc", "--out", "look.png")[0] == 0
    assert [caption.rpartition("\n")[0] for caption in captions] == [f"class {label}" for label in labels]
    captions.clear()
    names = [f"a name of ${number}$, \u732b" for number in range(20)]
    replace(record(model="er"), class_names=names).save(tmp_path)
    assert samc("memory", "show", ".", "--out", "look.png")[0] == 0
    assert [caption.rpartition("\n")[0] for caption in captions] == [
        rf"a name of \${label}\$," + "\n\u732b" for label in labels
    ]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("cat", "cat"),
        ("African hunting dog", "African hunting\ndog"),
        ("a very long name of a very small beetle", "a very long\nname of a very…"),
        ("$x$\x1b", r"\$x\$\x1b"),
        ("x" * 40, "x" * 15 + "\n" + "x" * 14 + "…"),
    ],
)
def test_a_name_has_so_many_lines(name, lines):
    assert in_lines(name, 15) == lines


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["coo", "jpeg:30", "gist:thumb:4+cam"])
@pytest.mark.parametrize("shape", [(3, 16, 24), (1, 9, 5)])
def test_every_kind_of_memory_can_be_drawn(tmp_path, spec, shape):
    from samc.report.memory_picture import draw_memory

    memory, _ = filled(spec, shape, tasks=range(5), count=2)
    drawn, narrow = (
        cv2.imdecode(np.frombuffer(draw_memory(memory, per_task=count), np.uint8), cv2.IMREAD_COLOR) for count in (6, 1)
    )
    assert drawn.shape[1] > narrow.shape[1]
    assert drawn.std() > 10


def test_the_map_of_a_whole_image_hides_nothing(tmp_path):
    memory = EpisodicMemory(parse_codec("cam:2x2", (3, 16, 16)), 20, Budget(100_000))
    kept, _ = select(np.zeros((1, 2, 2), np.uint8), 0.5, 16, 16, memory.max_pixels)
    images = smooth_images(1, (3, 16, 16), 0)
    memory.add(0, images, kept, np.array([3]))
    path = memory.save(tmp_path / "memory.samc")
    assert "nothing to hide" in audit(path, images).verdict
    (item,) = memory.by_task[0].images
    memory.by_task[0].images[0] = memory.stored_image(item.blob[:2] + b"abcd" + item.blob[6:], item.label)
    memory.save(path, replace=True)
    assert np.array_equal(load(path).recall(0)[0], images)
    assert "1 of 1 images carry bytes that their codec would not have written" in audit(path).verdict
