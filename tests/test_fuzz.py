"""Thousands of damaged and forged files and settings: each is read, or refused in one line, soon and in little memory.

`python tests/test_fuzz.py 5000` tries as many as it is told.
"""

import contextlib
import copy
import io
import json
import random
import re
import shutil
import sys
import time
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
from safetensors.torch import save_file

from fuzzing import STRANGE, change, changed_bytes, changed_json, changed_state, parent, places
from limits import within
from memory_makers import SPECS, filled, forged
from record_makers import of_job
from run_makers import MODELS, finished, interrupted
from run_makers import folder as runs_folder
from samc.cli import main
from samc.config import setting_fields
from samc.errors import UserError
from samc.experiments.items import ITEMS
from samc.learners import LEARNERS, configure
from samc.memory.container import KEY
from samc.memory.file import container_bytes
from samc.models.backbones import build_backbone
from samc.streams import open_stream

CASES = 300
# in the suite
PROGRESS = re.compile(r"\S+: task \d+/\d+  ")
# a line for each task, where there is no terminal
MOST_SECONDS, MOST_WAIT = 10, 60
# that one case computes for, and that it lasts: others may be at work on the machine
MOST_MEMORY = 2**28
# of one case
ROOT = Path(__file__).parents[1]
RECORD = json.loads((ROOT / "results/split-synthetic/gem-seed0/record.json").read_text())
DIAGNOSED = json.loads(next((ROOT / "results/diagnosis").glob("*/record.json")).read_text())


def call(*arguments) -> tuple[int, str, str]:
    """The command line in this process; anything but an orderly end is raised."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code or 0
    return code, out.getvalue(), err.getvalue()


def check_end(code, out, err, failed=(2,)):
    assert code == 0 or code in failed, (code, out, err)
    told = [line for line in err.splitlines() if not PROGRESS.match(line)]
    assert len(told) == (code == 2), err
    assert "interrupted" not in err
    assert not any(character in out + err for character in "\x1b\x07\u202e"), "an escape reached the terminal"


def a_record(rng, folder):
    """A changed record beside a good one, in a report and in a comparison."""
    content = changed_json(rng.choice((RECORD, RECORD, DIAGNOSED)), rng)
    for name, text in (("a", json.dumps(RECORD).encode()), ("b", content)):
        (folder / name).mkdir()
        (folder / name / "record.json").write_bytes(text)
    code, out, err = call("report", folder)
    check_end(code, out, err)
    assert "nan" not in out, "no figure is NaN"
    check_end(*call("compare", folder / "a", folder / "b"))


def a_store(rng, folder):
    """A changed record, or changed pictures, in a folder of `samc reproduce`."""
    item = ITEMS[rng.choice(("theory", "gallery", "table3", "table1"))]
    key = next(key for key in item.jobs(quick=True) if item.name != "theory" or item.jobs(quick=True)[key].diagnose)
    job = item.jobs(quick=True)[key]
    made = json.loads(of_job(job).save(folder / "made").read_text())
    if job.diagnose:
        made["diagnosis"] = DIAGNOSED["diagnosis"]
    place = folder / "store" / job.name
    place.mkdir(parents=True)
    damaged_pictures = job.pictures and rng.random() < 0.8
    content = json.dumps(made).encode() if damaged_pictures else changed_json(made, rng)
    (place / "record.json").write_bytes(content)
    if job.pictures:
        (place / "pictures.npz").write_bytes(changed_arrays(rng, pictures(rng)))
    check_end(*call("results", folder / "store", "--quick", "--page", folder / "page.md"))


def pictures(rng):
    noise = np.random.default_rng(rng.randrange(100))
    return {
        "task": np.arange(2), "name": np.array(["a", "b"]), "truth": noise.random((2, 8, 8, 3)),
        "saliency": noise.random((2, 8, 8)), "mask": noise.random((2, 8, 8)) > 0.5,
        "completed": noise.random((2, 8, 8, 3)), "nbytes": np.array([9, 10]),
    }  # fmt: skip


def changed_arrays(rng, arrays):
    """An npz file with an array of another shape or type, without one, or damaged as bytes."""
    arrays = dict(arrays)
    name = rng.choice(sorted(arrays))
    match rng.randrange(5):
        case 0:
            del arrays[name]
        case 1:
            arrays[name] = rng.choice((arrays[name][:1], arrays[name].reshape(-1), np.array(3), np.zeros((0, 3))))
        case 2:
            kind = rng.choice(("f8", "U9", "i8", "u1", "c16", "V7", "M8[s]"))
            arrays[name] = np.zeros(arrays[name].shape, kind)
        case 3 if arrays[name].dtype.kind == "f":
            arrays[name] = arrays[name] * rng.choice((np.nan, np.inf, -1, 1e300))
    file = io.BytesIO()
    rng.choice((np.savez, np.savez_compressed))(file, **arrays)
    return changed_bytes(file.getvalue(), rng) if rng.random() < 0.6 else file.getvalue()


def an_npz(rng, folder):
    """A changed file of images and labels, as the stream of a run that is refused or cut."""
    noise = np.random.default_rng(0)
    arrays = {"x": noise.integers(0, 256, (40, 8, 8, 3), np.uint8), "y": np.arange(40) % 4}
    (folder / "my.npz").write_bytes(changed_arrays(rng, arrays))
    with contextlib.suppress(UserError):
        assert len(open_stream(f"npz:{folder / 'my.npz'}", n_tasks=2)) == 2
    check_end(*call("memory", "audit", folder / "none.samc", "--against", folder / "my.npz"))


def a_memory(rng, folder):
    """A memory's file with changed bytes, or with changed fields and a checksum that fits."""
    path = folder / "memory.samc"
    filled(rng.choice(SPECS))[0].save(path)
    if rng.random() < 0.4:
        path.write_bytes(changed_bytes(path.read_bytes(), rng))
    else:
        raw = path.read_bytes()
        fields = json.loads(json.loads(raw[8 : container_bytes(path)])["__metadata__"][KEY])
        name = rng.choice(sorted(fields))
        values = (*STRANGE, "jpeg:999999999", "cam:4000x4000", [3, 4096, 4096], [1, 1, 2**40], [[0, 8, 8]] * 3000)
        forged(path, **{name: rng.choice(values)})
    check_end(*call("memory", "info", path))
    check_end(*call("memory", "audit", path), failed=(1, 2))
    if rng.random() < 0.2:
        check_end(*call("memory", "show", path, "--out", folder / "memory.png"))


def a_config(rng, folder):
    """Settings of the wrong kind, from Python; and as flags, where they are text anyway."""
    model = rng.choice(sorted(LEARNERS))
    fields = setting_fields(LEARNERS[model].Settings)
    names = [*(item.name for item in fields), "seed", "memory_bytes", "buffer_size", "n_tasks", "class_order", "codec"]
    numbers = (10**400, float("nan"), float("inf"), "9" * 5000, "jpeg:" + "9" * 50, "9" * 20 + "GB", "\x1b[31m")
    given = {name: rng.choice((*STRANGE, *numbers)) for name in rng.sample(names, rng.choice((1, 1, 2)))}
    with unchecked_types(), contextlib.suppress(UserError):
        configure({"model": model, **given})


def changed_tensors(rng, path):
    """A state's file with changed bytes, or with a changed structure and a checksum that fits."""
    content = path.read_bytes()
    if rng.random() < 0.4:
        path.write_bytes(changed_bytes(content, rng))
    else:
        path.write_bytes(changed_state(content, lambda state: change(state, rng)))


def a_learner(rng, folder):
    """What a finished run has left, changed: loaded, asked, and continued."""
    shutil.copytree(finished(rng.choice(sorted(MODELS))), folder / "run")
    if rng.random() < 0.2:
        text = json.loads((folder / "run" / "record.json").read_text())
        (folder / "run" / "record.json").write_bytes(changed_json(text, rng))
    else:
        changed_tensors(rng, folder / "run" / "learner.safetensors")
    new = made_once().parent / "second.npz"
    if rng.random() < 0.2:
        new = folder / "new.npz"
        noise = np.random.default_rng(0)
        arrays = {"x": noise.integers(0, 256, (24, 8, 8, 3), np.uint8), "y": np.arange(24) % 4}
        new.write_bytes(changed_arrays(rng, arrays))
    with unchecked_types():
        check_end(*call("predict", folder / "run", "--task", 1, made_once()))
        check_end(*call("continue", folder / "run", "--dataset", f"npz:{new}", "--out", folder / "out"))


def a_checkpoint(rng, folder):
    """Checkpoints of a run that was interrupted, or what it is, changed: it goes on, or is refused."""
    shutil.copytree(interrupted(rng.choice(sorted(MODELS))), folder / "run")
    *_, last = checkpoints = sorted((folder / "run").glob("checkpoint-*"))
    if rng.random() < 0.3:
        text = json.loads((folder / "run" / "run.json").read_text())
        (folder / "run" / "run.json").write_bytes(changed_json(text, rng))
    else:
        for path in rng.choice((checkpoints, [last])):
            changed_tensors(rng, path)
    with unchecked_types():
        check_end(*call("run", "--resume", folder / "run"))


def weights(rng, folder):
    """A changed file of a network's or an autoencoder's weights."""
    kind, path = rng.choice(("--weights", "--autoencoder")), folder / "weights.safetensors"
    if kind == "--weights":
        save_file(build_backbone("mlp", (3, 8, 8)).state_dict(), path)
    else:
        path.write_bytes((ROOT / "src/samc/models/autoencoder-cifar10.safetensors").read_bytes())
    path.write_bytes(changed_bytes(path.read_bytes(), rng))
    model = (
        ("er", "--backbone", "mlp", "--preset", "none")
        if kind == "--weights"
        else ("samc", "--backbone", "mlp", "--preset", "paper")
    )
    data = ("--dataset", f"npz:{made_once().parent / 'first.npz'}", "--out", folder / "out")
    check_end(*call("run", "--model", *model, kind, path, *data))


def made_once():
    return runs_folder() / "image.png"


@contextlib.contextmanager
def unchecked_types():
    """A user's files meet our own checks, not the tests'."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


KINDS = (
    *[a_record] * 6, *[an_npz] * 3, *[a_memory] * 3, *[a_config] * 3, a_store, *[a_learner] * 3, *[a_checkpoint] * 3,
    weights,
)  # fmt: skip


def resident(which):
    """The memory that this process takes (VmRSS), or the most that it took (VmHWM)."""
    found = re.search(rf"^{which}:\s+(\d+) kB", Path("/proc/self/status").read_text(), flags=re.M)
    return 1024 * int(found[1])


def try_case(seed, folder):
    """One case; raises what is wrong with it. Returns its seconds and its most memory."""
    rng, kind = random.Random(seed), KINDS[seed % len(KINDS)]
    folder.mkdir()
    with contextlib.suppress(OSError):  # where it may not be reset, a case counts if it is the largest so far
        Path("/proc/self/clear_refs").write_text("5")
    before, started, worked = resident("VmRSS"), time.perf_counter(), time.process_time()
    kind(rng, folder)
    lasted, seconds, most = time.perf_counter() - started, time.process_time() - worked, resident("VmHWM") - before
    assert lasted < within(MOST_WAIT), f"lasted {lasted:.1f} s"
    assert seconds < within(MOST_SECONDS), f"took {seconds:.1f} s"
    assert most < MOST_MEMORY, f"took {most:,} bytes"
    return seconds, most


@pytest.mark.parametrize("part", range(10))
@pytest.mark.filterwarnings("ignore")
def test_whatever_a_file_or_a_setting_is_the_end_is_orderly(part, tmp_path):
    for seed in range(part, CASES, 10):
        try:
            try_case(seed, tmp_path / str(seed))
        except BaseException as error:
            raise AssertionError(f"case {seed}, {KINDS[seed % len(KINDS)].__name__}: {error!r}") from error


VALUES = (None, "x", -1, 50.0, 10**400, [], {}, "\x1b[2J", [None], float("nan"))


def five_hundred_changes():
    """Every value of a record's first two levels, and the first of each list, in five ways each."""
    paths = [path for path in places(RECORD) if len(path) <= 2 and all(key == 0 or type(key) is str for key in path)]
    for number, path in enumerate(paths):
        for turn in range(6):
            content = copy.deepcopy(RECORD)
            if turn == 5:
                del parent(content, path)[path[-1]]
            else:
                parent(content, path)[path[-1]] = VALUES[(number + turn * 3) % len(VALUES)]
            yield ".".join(map(str, path)), json.dumps(content)


def test_a_record_changed_in_five_hundred_ways(tmp_path):
    cases = list(five_hundred_changes())
    assert len(cases) >= 500
    refused = 0
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(json.dumps(RECORD))
    for where, text in cases:
        (tmp_path / "b" / "record.json").write_text(text)
        for arguments in (("report", tmp_path), ("compare", tmp_path / "a", tmp_path / "b")):
            code, out, err = call(*arguments)
            check_end(code, out, err)
            assert "nan" not in out, where
            refused += "is not a run's record" in err
            assert "is not a run's record" not in err or str(tmp_path / "b" / "record.json") in err
    assert refused > len(cases) / 2


if __name__ == "__main__":
    import tempfile
    import traceback
    import warnings

    warnings.simplefilter("ignore")
    first, last = (0, int(sys.argv[1])) if len(sys.argv) < 3 else (int(sys.argv[1]), int(sys.argv[2]))
    wrong, slowest, largest = 0, (0.0, 0), (0, 0)
    for seed in range(first, last):
        if not (seed - first) % 100:
            told = f"{seed - first} of {last - first} cases, {resident('VmRSS') // 2**20} MB resident"
            print(told, end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as temporary:
            try:
                seconds, most = try_case(seed, Path(temporary) / "case")
                slowest, largest = max(slowest, (seconds, seed)), max(largest, (most, seed))
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                wrong += 1
                place = traceback.extract_tb(error.__traceback__)[-1]
                print(f"case {seed}, {KINDS[seed % len(KINDS)].__name__}: {error!r:.200} in {place.name}", flush=True)
    print(f"{last - first} cases, {wrong} wrong; slowest {slowest}, largest {largest}")
