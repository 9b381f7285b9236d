"""A memory's file: every codec comes back, the bytes are the counted ones, and no damage passes for a memory."""

import hashlib
import re
import time
import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import load_file
from safetensors.numpy import save_file as save_tensors

import samc
from limits import within
from memory_makers import SPECS, filled, forged
from samc.errors import DataError, OutputError
from samc.memory import Budget, EpisodicMemory, full_selection, parse_codec, select
from samc.memory.container import KEY
from samc.memory.file import container_bytes, load, save

MUTANTS, PARTS = 10_000, 10
# in parts, so that tests that run side by side share them


def content(memory):
    """All that two equal memories have in common."""
    terms = (memory.codec.spec, memory.codec.image_shape, memory.num_classes, memory.accounting, memory.budget)
    costs = {task: held.cost for task, held in memory.by_task.items()}
    return terms, memory.state_dict(), costs, memory.nbytes_by_part


@pytest.mark.parametrize("tasks", [1, 20])
@pytest.mark.parametrize("note", [None, "logits"])
@pytest.mark.parametrize("spec", ["raw", "jpeg:10", "coo", "focus:2:jpeg:10@16", "gist:webp:5+cam+deflate"])
def test_what_a_file_holds_besides_is_as_small_as_the_documents_say(tmp_path, spec, note, tasks):
    many = {"tasks": range(tasks), "count": 300, "classes": 100, "budget": Budget(10_000_000)}
    memory, _ = filled(spec, note=note, **many)
    assert all(len(held.images) == 300 for held in memory.by_task.values())
    assert 400 <= container_bytes(memory.save(tmp_path / "memory.samc")) <= 1000


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 20, 13)])
@pytest.mark.parametrize("classes", [10, 300])
def test_every_codec_comes_back_and_the_bytes_are_the_counted_ones(tmp_path, spec, shape, classes):
    memory, _ = filled(spec, shape, classes=classes)
    path = memory.save(tmp_path / "memory.samc")
    assert content(samc.Memory.load(path)) == content(memory)
    assert path.stat().st_size == container_bytes(path) + memory.nbytes
    tensors = load_file(path)  # any reader of safetensors can open it
    assert sum(tensor.nbytes for tensor in tensors.values()) == memory.nbytes
    assert ("sizes" in tensors) == (memory.codec.blob_bytes is None)
    assert len(tensors["labels"]) == 8
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("accounting", ["bytes", "values"])
def test_a_loaded_memory_goes_on_as_the_saved_one_would(tmp_path, accounting):
    memory, images = filled("coo", accounting=accounting, budget=Budget(2000, per_task=False), count=6)
    loaded = load(memory.save(tmp_path / "memory.samc"))
    kept, _ = select(np.arange(24, dtype=np.uint8).reshape(6, 2, 2), 0.6, 16, 16, memory.max_pixels)
    for buffer in (memory, loaded):
        buffer.add(7, images[:6], kept, np.arange(6))
    assert content(loaded) == content(memory)
    assert list(loaded.by_task) == [0, 3, 7]


@pytest.mark.parametrize(("shape", "grid"), [((1, 28, 28), (7, 7)), ((3, 16, 12), (16, 12)), ((3, 16, 12), (1, 5))])
@pytest.mark.parametrize("spec", ["cam", "cam+deflate", "gist:thumb:4+cam"])
def test_a_file_knows_the_grid_of_its_maps(tmp_path, spec, shape, grid):
    memory, _ = filled(spec, shape, grid=grid)
    loaded = load(memory.save(tmp_path / "memory.samc"))
    assert loaded.codec.spec == spec.replace("cam", f"cam:{grid[0]}x{grid[1]}")
    assert content(loaded) == content(memory)
    for task in memory.tasks:
        for array, again in zip(memory.recall(task), loaded.recall(task), strict=True):
            assert np.array_equal(array, again)


def test_an_unknown_number_of_classes_is_a_file_too(tmp_path):
    memory, _ = filled("coo", classes=None)
    path = memory.save(tmp_path / "memory.samc")
    assert load(path).num_classes == 65_536
    assert content(load(path)) == content(memory)
    assert load_file(path)["labels"].dtype == np.uint16
    forged(path, num_classes=65_537)
    with pytest.raises(DataError, match="tensors are not blobs, labels, sizes"):
        load(path)


@pytest.mark.parametrize(
    ("spec", "digest"),
    [
        ("raw", "3486e3c48451ae812bbe67d4ffe5f57db4b03273453369f453d312d15f421f14"),
        ("coo", "db301234d66221066abf3842b3ef22e205335010e09c021cd4baf734c602ba7c"),
        ("bitmask", "2591157826f6b28d33136fc6ad626f5f2fbff3e63f1a88807d40640d3cb96cb7"),
    ],
)
def test_the_format_has_not_changed(tmp_path, spec, digest):
    """The files that format 1 has always had, byte for byte; where this fails, the format needs a new number."""
    path = filled(spec)[0].save(tmp_path / "memory.samc")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest


def test_an_empty_memory_is_a_file_too(tmp_path):
    memory = EpisodicMemory(parse_codec("coo", (3, 8, 8)), 10, Budget(1000))
    path = memory.save(tmp_path / "memory.samc")
    assert path.stat().st_size == container_bytes(path)
    assert content(load(path)) == content(memory)


def test_images_out_of_all_proportion_to_their_bytes_are_not_written(tmp_path):
    memory = EpisodicMemory(parse_codec("thumb:1", (1, 4096, 4096)), 10, Budget(1000))
    kept, image = full_selection(1, 4096, 4096), np.zeros((1, 1, 4096, 4096), np.uint8)
    for label in range(7):
        memory.add(0, image, kept, np.array([label]))
    assert content(load(memory.save(tmp_path / "seven.samc"))) == content(memory)
    memory.add(0, image, kept, np.array([7]))
    with pytest.raises(OutputError, match="its images keep too little of what they are; use smaller images"):
        memory.save(tmp_path / "eight.samc")


def test_the_same_memory_is_the_same_file(tmp_path):
    a, b = (filled("cam")[0].save(tmp_path / name).read_bytes() for name in "ab")
    assert a == b


def test_a_file_is_written_over_only_if_asked(tmp_path):
    path = tmp_path / "memory.samc"
    path.write_text("precious")
    memory, _ = filled("raw")
    with pytest.raises(OutputError, match="is there already; choose another name, or say replace=True"):
        memory.save(path)
    assert path.read_text() == "precious"
    memory.save(path, replace=True)
    assert content(load(path)) == content(memory)
    with pytest.raises(OutputError, match=r"cannot write .*nowhere"):
        memory.save(tmp_path / "nowhere" / "memory.samc")
    assert [path.name for path in tmp_path.iterdir()] == ["memory.samc"]


def mutated(original, rng):
    """One of the ways in which a file goes bad: bytes flipped, a piece cut out or put in, a number that lies."""
    data = bytearray(original)
    header = 8 + int.from_bytes(data[:8], "little")
    # half of the damage goes to the few bytes that all others depend on
    end = header if rng.random() < 0.5 else len(data)
    place, length = int(rng.integers(end)), int(rng.integers(1, 40))
    match rng.integers(6):
        case 0:
            data[place] ^= int(rng.integers(1, 256))
        case 1:
            for _ in range(length):
                data[int(rng.integers(end))] = int(rng.integers(256))
        case 2:
            del data[place:]
        case 3:
            del data[place : place + length]
        case 4:
            data[place:place] = rng.bytes(length)
        case 5:  # a digit of a size, an offset, a count, or the header's own length
            digits = [8 + i for i, byte in enumerate(data[8:header]) if chr(byte).isdecimal()]
            spot = int(rng.choice([*digits, *range(8)]))
            data[spot] = int(rng.integers(48, 58)) if spot >= 8 else int(rng.integers(256))
    return bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_ten_thousand_mutants_are_refused_or_equal(tmp_path, part):
    """Beyond the file and its copy as Python's objects, a load takes what one image and parsing take: 256 KiB here."""
    rng = np.random.default_rng(part)
    path = tmp_path / "mutant.samc"
    memories = [filled(spec, seed=number)[0] for number, spec in enumerate(SPECS)]
    originals = [save(memory, path, replace=True).read_bytes() for memory in memories]
    contents = [content(memory) for memory in memories]
    refused, slowest, most = [], 0.0, 0
    tracemalloc.start()
    try:
        for number in range(MUTANTS // PARTS):
            which = number % len(SPECS)
            mutant = mutated(originals[which], rng)
            with path.open("r+b") as file:  # to empty it first would take longer than all the rest
                file.write(mutant)
                file.truncate()
            tracemalloc.reset_peak()
            before, began = tracemalloc.get_traced_memory()[0], time.perf_counter()
            try:
                found = load(path)
            except DataError as error:
                refused.append(str(error))
            else:
                assert content(found) == contents[which]
            slowest = max(slowest, time.perf_counter() - began)
            most = max(most, tracemalloc.get_traced_memory()[1] - before - 2 * len(mutant))
    finally:
        tracemalloc.stop()
    assert len(refused) > 0.9 * MUTANTS / PARTS
    for message in refused:
        assert re.fullmatch(
            rf"{path} is not a whole memory file \(.+\); copy it again, or save the memory anew", message
        )
    assert most < 2**18
    assert slowest < within(2)


@pytest.mark.parametrize(
    ("spec", "changes", "words"),
    [
        ("coo", {"format": 2}, "it has format 2, this version of samc reads 1"),
        ("coo", {"image_shape": [3, 2**40, 2**40]}, "sides of 1 to 4096"),
        ("coo", {"image_shape": [2, 16, 16]}, "1 or 3 channels"),
        ("coo", {"image_shape": [3, 16]}, "1 or 3 channels"),
        ("raw", {"image_shape": [3, 4096, 4096]}, "too few bytes"),
        ("raw", {"image_shape": [3, 400, 400]}, "budget of 100000 bytes per task cannot hold one image"),
        (
            "raw",
            {"image_shape": [3, 400, 400], "budget": {"total": 10**12, "per_task": True}},
            "other lengths than it says",
        ),
        ("coo", {"image_shape": [3, 4096, 4096]}, "too few bytes for so many images of that size"),
        ("jpeg:30", {"image_shape": [3, 4096, 4096]}, "too few bytes for so many images of that size"),
        ("coo", {"tasks": [[0, 10**15, 10**15]]}, "too few bytes for so many images"),
        ("coo", {"tasks": [[0, 9, 9]]}, "another number of images"),
        ("coo", {"tasks": [[0, 4, 4], [0, 4, 4]]}, "list of tasks makes no sense"),
        ("coo", {"tasks": [[0, 4, 4], [3, 4, 2]]}, "list of tasks makes no sense"),
        ("coo", {"tasks": [[0, 4, 4], [3, 4.0, 4]]}, "no whole number"),
        ("coo", {"tasks": [[0, 4, 10**400], [3, 4, 4]]}, "no whole number"),
        ("coo", {"tasks": None}, "not a whole memory file"),
        ("coo", {"num_classes": 2}, "labels go from 0 to 1"),
        ("coo", {"num_classes": 300}, "tensors are not blobs, labels, sizes"),
        ("coo", {"num_classes": 10**9}, "tensors are not"),
        ("coo", {"codec": "raw"}, "tensors are not blobs, labels, each"),
        ("coo", {"codec": "bitmask"}, "does not match its own header"),
        ("jpeg:30", {"codec": "jpeg:0030"}, "its codec calls itself jpeg:30"),
        ("coo", {"codec": "pickle"}, "unknown codec"),
        ("coo", {"codec": ["coo"]}, "not a whole memory file"),
        ("cam", {"codec": "cam"}, "cam needs its map's grid, such as cam:4x4"),
        ("cam", {"codec": "cam:02x2"}, "its codec calls itself cam:2x2"),
        ("cam", {"codec": "cam:2x1"}, "does not match its own header"),
        ("cam", {"codec": "cam:16x16"}, "does not match its own header"),
        ("cam", {"codec": "cam:0x2"}, "from 1x1 up to the image's 16x16, got 0x2"),
        ("cam", {"codec": "cam:17x16"}, "from 1x1 up to the image's 16x16, got 17x16"),
        ("cam", {"codec": "cam:999999999x999999999"}, "from 1x1 up to the image's 16x16"),
        ("cam", {"codec": f"cam:{'9' * 5000}x2"}, "the grid of cam is rows and columns"),
        (
            "cam",
            {"codec": "cam:4096x4096", "image_shape": [3, 4096, 4096], "tasks": [[0, 1, 1], [3, 0, 0]]},
            "budget of 100000 bytes per task cannot hold one image",
        ),
        ("gist:thumb:4+cam", {"codec": "gist:thumb:4+cam:16x16+deflate"}, "does not match its own header"),
        ("coo", {"accounting": "free"}, "its accounting is free"),
        ("coo", {"budget": {"total": 100, "per_task": True}}, "more than its budget allows"),
        ("coo", {"budget": {"total": 100_000, "per_task": 1}}, "budget make no sense"),
        ("coo", {"note": "hidden"}, "not in the form that samc writes"),
    ],
)
def test_lies_with_a_fitting_checksum_are_refused_before_anything_is_taken(tmp_path, spec, changes, words):
    path = filled(spec)[0].save(tmp_path / "memory.samc")
    forged(path, **changes)
    with pytest.raises(DataError, match=words):
        load(path)
    tracemalloc.start()  # not before: what the first refusal of a process imports takes memory too
    try:
        with pytest.raises(DataError):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
def test_damage_under_a_fitting_checksum_is_refused_or_can_be_recalled(tmp_path, spec):
    """Whoever makes the checksum fit decides what is remembered, but not what happens to those who read it."""
    rng = np.random.default_rng(0)
    path = filled(spec)[0].save(tmp_path / "memory.samc")
    tensors = load_file(path)
    for _ in range(60):
        damage = {name: tensor.copy() for name, tensor in tensors.items()}
        bad = damage[str(rng.choice(["blobs", "blobs", "blobs", "labels"]))]
        bad[rng.integers(0, len(bad), 3)] = rng.integers(0, 256, 3)
        forged(path, damage)
        try:
            found = load(path)
        except DataError:
            continue
        for task in found.tasks:
            images, masks, labels = found.recall(task)
            assert images.shape == (4, 3, 16, 16)
            assert masks.shape == (4, 16, 16)
            assert labels.max() < 20


def test_lying_lengths_and_foreign_tensors_are_refused(tmp_path):
    path = filled("coo")[0].save(tmp_path / "memory.samc")
    tensors = load_file(path)
    forged(path, tensors | {"sizes": tensors["sizes"][:-1]})
    with pytest.raises(DataError, match="other lengths than it says"):
        load(path)
    forged(path, tensors | {"sizes": np.roll(tensors["sizes"] + np.arange(-4, 4).astype("u2"), 1)})
    with pytest.raises(DataError, match=r"damaged|other lengths"):
        load(path)
    forged(path, tensors | {"more": np.zeros(3, np.uint8)})
    with pytest.raises(DataError, match="tensors are not blobs, labels, sizes"):
        load(path)
    forged(path, tensors | {"sizes": tensors["sizes"].astype(np.float32)})
    with pytest.raises(DataError, match="a tensor of F32"):
        load(path)


def test_other_files_are_refused_in_one_line(tmp_path):
    path = tmp_path / "file"
    for raw in (b"", b"PK", b"not a memory at all", b"\xff" * 64, (2**20).to_bytes(8, "little") + bytes(2**21)):
        path.write_bytes(raw)
        with pytest.raises(DataError, match=r"file is not a whole memory file .*copy it again"):
            load(path)
    with pytest.raises(DataError, match="absent is not there; give the path of a memory's file"):
        load(tmp_path / "absent")
    with pytest.raises(DataError, match="is a folder, no plain file; give the path of a memory's file"):
        load(tmp_path)
    nested = b"[" * 100_000
    path.write_bytes(len(nested).to_bytes(8, "little") + nested)
    with pytest.raises(DataError, match="not a whole memory file"):
        load(path)
    save_tensors({"x": np.zeros(3, np.uint8)}, path, metadata={KEY: "[]", "other": "{}"})
    with pytest.raises(DataError, match="instead of samc alone"):
        load(path)
