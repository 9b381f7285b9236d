"""What comes from outside, at the door: each kind of bad input is one line with the remedy, and soon."""

import contextlib
import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_makers import listing, make_image
from limits import within
from memory_makers import filled, forged, smooth_images
from record_makers import record
from samc import files
from samc.cli.drawing import Terminal
from samc.cli.progress import Bar, live_progress
from samc.errors import ConfigError, DataError, UserError, printable
from samc.experiments.pictures import read_pictures
from samc.files import expanded, open_regular, read_regular
from samc.memory import Budget, EpisodicMemory, parse_codec
from samc.memory.audit import audit
from samc.memory.budget import parse_budget
from samc.memory.file import load
from samc.memory.selection import full_selection
from samc.record import RunRecord
from samc.report.comparison import comparison_tables
from samc.report.pair import pair_tables
from samc.streams import open_stream, split_synthetic
from samc.streams.fetch import ARCHIVES, fetch, staging_folder
from samc.streams.images import read_arrays, read_image

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


# A. Doors


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.ppm"])
def test_a_picture_in_another_format_than_ours_starts_no_program(tmp_path, monkeypatch, name):
    (tmp_path / name).write_bytes(EPS)
    monkeypatch.setattr(subprocess, "check_call", lambda *_, **__: pytest.fail("a program was started"))
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a program was started"))
    with pytest.raises(DataError, match=r"cannot read .* as an image \(UnidentifiedImageError\)"):
        read_image(tmp_path / name, 8)


def test_every_picture_is_opened_in_formats_that_are_named():
    source = Path(files.__file__).parent
    calls = [
        line.strip() for path in source.rglob("*.py") for line in path.read_text().splitlines() if "Image.open(" in line
    ]
    assert len(calls) == 2
    assert all("formats=" in line for line in calls)


def test_pictures_are_refused_by_the_size_that_they_state(tmp_path):
    for side, message in (
        (9_000, r"says it has 9,000x9,000 pixels, too many to read"),
        (12_000, "is too large to read"),
    ):
        Image.new("1", (side, side)).save(tmp_path / "large.png")
        with pytest.raises(DataError, match=rf"large\.png {message}.*; make it smaller"):
            read_image(tmp_path / "large.png", 8)
    make_image(tmp_path / "wide.png", size=(1025, 2))
    with pytest.raises(DataError, match=r"1,025x2 pixels, and images .* at most 1,024 per side; resize .*--image-size"):
        read_image(tmp_path / "wide.png", None)
    assert read_image(tmp_path / "wide.png", 8).shape == (8, 8, 3)


def test_arrays_that_burst_are_refused_by_the_size_that_they_state(tmp_path, monkeypatch):
    monkeypatch.setattr("samc.streams.npz.FREE_BYTES", 10_000)
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros((1000, 32, 32, 3), np.uint8))
    with pytest.raises(
        DataError, match=r"claims arrays of 3,072,128 bytes in a file of \d,\d{3}; if they are yours, save"
    ):
        read_arrays(tmp_path / "bomb.npz", ("x",))
    np.savez(tmp_path / "plain.npz", x=np.zeros((1000, 32, 32, 3), np.uint8))
    assert read_arrays(tmp_path / "plain.npz", ("x",))["x"].shape == (1000, 32, 32, 3)


def npz_of(path, content, **changes):
    """A file with one member x.npy of these bytes, and changes to what the archive says of it."""
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("x.npy")
        archive.writestr(info, content)
        for name, value in changes.items():
            setattr(info, name, value)
    return path


def npy(header: dict) -> bytes:
    text = repr(header).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((10**12,), "|u1"), ((2**62, 4), "<f8"), ((-1,), "|u1"), ((3,), "|u1"), ((10**400,), "|u1"), ((64,), "|O")],
)
def test_an_array_is_compared_with_its_bytes_before_it_is_made(tmp_path, shape, kind):
    path = npz_of(tmp_path / "a.npz", npy({"descr": kind, "fortran_order": False, "shape": shape}))
    with pytest.raises(DataError, match=r"cannot read .*a\.npz \(.*\); copy it again, or save plain arrays"):
        read_arrays(path, ("x",))


def test_labels_that_are_no_classes(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((65_537, 1, 1, 1), np.uint8), y=np.arange(65_537))
    with pytest.raises(DataError, match=r"has 65,537 different labels, at most 65,536 are classes; check y"):
        open_stream(f"npz:{tmp_path / 'a.npz'}")


def test_an_encrypted_file_is_called_so(tmp_path):
    path = npz_of(tmp_path / "a.npz", npy({"descr": "|u1", "fortran_order": False, "shape": (64,)}), flag_bits=1)
    with pytest.raises(DataError, match=r"a\.npz is encrypted; save plain arrays with numpy\.savez"):
        read_arrays(path, ("x",))


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_pipes_devices_and_folders_are_no_files(pipe, tmp_path):
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(DataError, match=r"is a pipe, a socket or a device, no plain file; check the path"):
            open_regular(path)
    with pytest.raises(DataError, match="is a folder, no plain file"):
        open_regular(tmp_path)
    with pytest.raises(DataError, match="is not there; look elsewhere"):
        open_regular(tmp_path / "none", "look elsewhere")
    with pytest.raises(DataError, match=r"cannot read .*; check its name"):
        open_regular(Path("a\0b"))
    (tmp_path / "long").write_bytes(bytes(11))
    with pytest.raises(DataError, match="has more than 10 bytes, which no file of its kind has"):
        read_regular(tmp_path / "long", 10)


def test_no_reader_waits_for_a_pipe(pipe, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "train" / "a").mkdir(parents=True)
    for place in ("run/record.json", "run/memory.samc", "my.npz", "train/a/1.png", "pictures.npz"):
        (tmp_path / place).symlink_to(pipe)
    for read in (
        lambda: RunRecord.load(tmp_path / "run"),
        lambda: load(tmp_path / "run" / "memory.samc"),
        lambda: audit(tmp_path / "run" / "memory.samc"),
        lambda: open_stream(f"npz:{tmp_path / 'my.npz'}"),
        lambda: open_stream(f"folder:{tmp_path}"),
        lambda: read_pictures(tmp_path / "pictures.npz"),
        lambda: fetch("cifar100", tmp_path / "data", url=pipe.as_uri()),
    ):
        with pytest.raises(DataError, match="no plain file"):
            read()


def test_what_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch, command):
    filled("raw")[0].save(tmp_path / "memory.samc")
    record(model="gem").save(tmp_path)
    monkeypatch.setattr(
        files, "is_regular", lambda path: (_ for _ in ()).throw(PermissionError(errno.EACCES, "Permission denied"))
    )
    for arguments in (("report", tmp_path), ("memory", "info", tmp_path), ("memory", "audit", tmp_path)):
        code, out, err = command(*arguments)
        assert (code, out) == (2, "")
        assert re.fullmatch(r"samc: cannot read \S+ \(Permission denied\); check its name and who may read it\n", err)


def test_nothing_of_a_file_steers_the_terminal(tmp_path, command):
    assert printable("a\x1b[2Jb\n\x07\u202ec\x9b\udc80é") == "a\\x1b[2Jb \\x07\\u202ec\\x9b\\udc80é"
    assert str(UserError("a\x1b]0;b\x07\nc")) == "a\\x1b]0;b\\x07 c"
    assert len(str(UserError("9" * 5000 + "; write less"))) < 1100
    assert str(UserError("9" * 5000 + "; write less")).endswith("; write less")
    made = record(model="gem\x1b[31m")
    made = replace(made, fingerprint={**made.fingerprint, "stream": "a\x1b]0;b\x07"})
    folder = tmp_path / "x\x1b[5m"
    replace(made, device={"name": "\x9b2J"}).save(folder / "a")
    replace(made, device={"name": "\x1bc"}, versions={**made.versions, "torch": "\x1b[0m"}).save(folder / "b")
    filled("raw")[0].save(folder / "memory.samc")
    Image.new("RGB", (32, 32)).save(folder / "c.png")
    ends = [
        command("report", folder), command("report", folder, "--markdown"), command("memory", "info", folder),
        command("compare", folder / "a", folder / "b"), command("compare", folder / "a", folder / "none"),
        command("memory", "audit", folder), command("data", "list", "--data-dir", folder),
        command("memory", "show", folder, "--out", folder / "a.png"),
        command("\x1b[2J"), command("run", "--model", "\x1b[2J"),
        command("run", "--model", "finetune", "--backbone", "mlp", "--n-tasks", 1, "--samples-per-task", 4, "--out",
                folder / "run"),
        command("run", "--resume", folder / "run"), command("predict", folder / "run", "--task", 0, folder / "c.png"),
        command("export", folder / "run", "--torchscript", folder / "net.pt"),
    ]  # fmt: skip
    assert not any(character in out + err for _, out, err in ends for character in "\x1b\x07\x9b")
    assert "gem\\x1b[31m" in ends[0][1]
    assert [code for code, _, _ in ends[-4:]] == [0, 2, 0, 0]


def test_bars_and_boards_escape_what_they_show():
    out = io.StringIO()
    with live_progress(Terminal(file=out, force_terminal=True)) as progress:
        Bar(progress, "npz:a\x1b[2J\x07").tell(status="\x1b]0;b\x07", completed=1)
        progress.console.print("one\x1b[2J\ntwo")
    assert not any(text in out.getvalue() for text in ("\x1b[2J\x07", "\x1b]0;b", "one\x1b[2J", "\x07"))
    assert "npz:a\\x1b[2J\\x07" in out.getvalue()
    assert "one\\x1b[2J\r\ntwo" in out.getvalue() or "one\\x1b[2J\ntwo" in out.getvalue()


@pytest.fixture
def server(monkeypatch):
    """Starts a server that does what it is told with each connection, until the test ends."""
    monkeypatch.setenv("no_proxy", "*")
    servers, over = [], threading.Event()

    def start(answer):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                with contextlib.suppress(OSError):
                    answer(self, over)

            def log_message(self, *arguments):
                """Says nothing."""

        made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        made.daemon_threads = True
        threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(made)
        return f"http://127.0.0.1:{made.server_port}/a.tar.gz"

    yield start
    over.set()
    for made in servers:
        made.shutdown()
        made.server_close()


@pytest.mark.parametrize("stated", [False, True])
def test_a_server_without_end_is_cut_off(server, tmp_path, monkeypatch, stated):
    monkeypatch.setitem(ARCHIVES, "cifar100", replace(ARCHIVES["cifar100"], nbytes=10**6))

    def endless(handler, over):
        handler.send_response(200)
        if stated:
            handler.send_header("Content-Length", str(10**12))
        handler.end_headers()
        while not over.is_set():
            handler.wfile.write(bytes(10_000))

    with pytest.raises(
        DataError, match=r"gives at least [\d,]+ bytes where the archive has fewer than 1,100,000; try an"
    ):
        fetch("cifar100", tmp_path, url=server(endless))
    assert listing(tmp_path) == []


@pytest.mark.parametrize("headers", [False, True])
def test_a_server_that_drips_is_given_up(server, tmp_path, monkeypatch, headers):
    monkeypatch.setattr("samc.streams.download.CHUNK_SECONDS", 0.5)

    def drip(handler, over):
        if headers:
            handler.send_response(200)
            handler.end_headers()
        while not over.wait(0.05):
            handler.wfile.write(b"x")
            handler.wfile.flush()

    started = time.monotonic()
    with pytest.raises(DataError, match=r"gives less than 65,536 bytes in 0\.5 seconds, after 0 bytes; try another"):
        fetch("cifar100", tmp_path, url=server(drip))
    assert time.monotonic() - started < within(5)
    assert listing(tmp_path) == []


def test_what_a_killed_fetch_left_is_removed_and_a_living_ones_is_not(tmp_path):
    code = "import sys, time; from pathlib import Path; from samc.streams.fetch import staging_folder\n"
    code += "with staging_folder(Path(sys.argv[1])) as folder: print(folder, flush=True), time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True) as killed:
        left = Path(killed.stdout.readline().strip())
        killed.kill()
    assert left.exists()
    (tmp_path / ".fetch-young").mkdir()
    (tmp_path / ".fetch-old").mkdir()
    os.utime(tmp_path / ".fetch-old", (0, 0))
    with staging_folder(tmp_path) as living:
        with pytest.raises(DataError):
            fetch("cifar100", tmp_path, url=(tmp_path / "none").as_uri())
        assert sorted(tmp_path.iterdir()) == sorted([living, tmp_path / ".fetch-young"])


def test_a_memory_of_many_pixels_in_few_bytes_is_refused_before_they_are_made(tmp_path):
    path = tmp_path / "memory.samc"
    EpisodicMemory(parse_codec("thumb:1", (1, 64, 64)), 10, Budget(10**9)).save(path)
    count = 300_000
    tensors = {"blobs": np.zeros(count, np.uint8), "labels": np.zeros(count, np.uint8)}
    forged(path, tensors, tasks=[[0, count, count]])
    started = time.monotonic()
    with pytest.raises(DataError, match="too few bytes for so many images of that size"):
        load(path)
    assert time.monotonic() - started < within(2)


@pytest.mark.slow
def test_a_memory_of_many_tasks_is_shown_in_part(tmp_path, command):
    path = tmp_path / "memory.samc"
    EpisodicMemory(parse_codec("raw", (1, 1, 1)), 10, Budget(10**9)).save(path)
    tensors = {"blobs": np.zeros(5000, np.uint8), "labels": np.zeros(5000, np.uint8)}
    forged(path, tensors, tasks=[[task, 1, 1] for task in range(5000)])
    code, out, _ = command("memory", "info", path)
    assert code == 0
    assert "4,800 more" in out
    assert command("memory", "show", path, "--out", tmp_path / "a.png")[0] == 0
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.width * picture.height < 10**7


@pytest.mark.slow
def test_large_images_are_thinned_before_they_are_completed(tmp_path, command):
    memory, _ = filled("cam", (3, 2000, 2000), tasks=(0,), count=2, grid=(4, 4), budget=Budget(10**8))
    memory.save(tmp_path / "memory.samc")
    started = time.monotonic()
    assert command("memory", "show", tmp_path, "--out", tmp_path / "a.png")[0] == 0
    assert time.monotonic() - started < within(20)


# B. Tracebacks


@pytest.mark.parametrize(
    ("part", "name", "value", "message"),
    [
        ("acc", None, 50.0, "acc is 50.0 instead of a fraction from 0 to 1"),
        ("acc", None, None, "acc is None instead of a fraction from 0 to 1"),
        ("bwt", None, -2, "bwt is -2 instead of a number from -1 to 1"),
        ("memory", "bytes", 10**400, r"1000\S+ ... 0+ is no number"),
        ("memory", "images_per_task", None, "memory.images_per_task is None instead of a list of numbers of images"),
        ("memory", "bytes_by_part", {"a": "b"}, "memory.bytes_by_part is {'a': 'b'} instead of a number"),
        ("seconds", "total", float("nan"), "NaN is no number"),
        ("config", "seed", "x", "config.seed is 'x' instead of a whole number from 0"),
        ("fingerprint", "training_images", ["x"], r"fingerprint.training_images is \['x'\] instead of a list of num"),
        ("versions", "torch", None, "versions.torch is None instead of a version"),
        ("device", "name", 3, "device.name is 3 instead of a machine's name"),
        ("accuracy_matrix", 1, [0.5], "accuracy_matrix is .* instead of rows of as many fractions from 0 to 1"),
        ("began_on", None, [{"device": {"name": "a"}}], "began_on is .* instead of the devices and versions that it"),
        ("began_on", None, "a", "began_on is 'a' instead of the devices and versions that it was begun with"),
    ],
)  # fmt: skip
def test_a_record_is_checked_when_it_is_read(tmp_path, part, name, value, message):
    path = record(model="gem").save(tmp_path)
    content = json.loads(path.read_text())
    if name is None:
        content[part] = value
    else:
        content[part][name] = value
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=rf"^{path} is not a run's record \({message}.*\); remove it or put the right"):
        RunRecord.load(tmp_path)


def test_damaged_pictures_are_named(tmp_path):
    names = ("task", "name", "truth", "saliency", "mask", "completed", "nbytes")
    empty, other = tmp_path / "empty.npz", tmp_path / "other.npz"
    empty.touch()
    with pytest.raises(DataError, match=r"empty\.npz is not a whole npz file; copy it again"):
        read_pictures(empty)
    np.savez(other, **{name: np.zeros(3) for name in names})
    with pytest.raises(
        DataError, match=r"other\.npz does not hold remembered images as a run leaves them; learn the run"
    ):
        read_pictures(other)


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--seed", "9" * 400, "seed is at most 9223372036854775807, got a larger number"),
        ("--seed", "9" * 5000, "--seed"),
        ("--batch-size", "9" * 30, "batch-size is at most"),
        ("--buffer-size", str(2**62), r"a budget is at most 9,007,199,254,740,991 bytes, got [\d,]+; write 30KB/task"),
        ("--memory-bytes", "99999999999999999999GB", "a budget is at most 9,007,199,254,740,991 bytes"),
        ("--codec", "jpeg:" + "9" * 5000, "codec jpeg wants a number after it"),
        ("--codec", "cam:" + "9" * 5000 + "x4", "the grid of cam is rows and columns"),
    ],
)
def test_numbers_beyond_all_bounds(tmp_path, command, flag, value, message):
    code, _, err = command("run", "--n-tasks", 1, "--samples-per-task", 10, "--out", tmp_path / "out", flag, value)
    assert (code, err.count("\n")) == (2, 1)
    assert re.search(message, err)
    assert len(err) < 1100


def test_homes_that_nobody_knows(tmp_path, command, monkeypatch):
    with pytest.raises(ConfigError, match=r"~nobody-at-all/x: nobody knows that home folder; write the whole path"):
        expanded("~nobody-at-all/x")
    for arguments in (("run", "--dataset", "npz:~nobody-at-all/x"), ("data", "list", "--data-dir", "~nobody-at-all")):
        code, _, err = command(*arguments)
        assert (code, err.count("\n")) == (2, 1)
        assert "nobody knows that home folder" in err
    for name in ("HOME", "SAMC_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: (_ for _ in ()).throw(KeyError(uid)))
    code, _, err = command("data", "list")
    assert (code, err) == (2, "samc: ~/.cache: nobody knows that home folder; write the whole path instead of ~\n")


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.1, 0.3, 1.0])
def test_an_early_interruption_is_one_line(seconds, tmp_path):
    said, imports = tmp_path / "stderr", "import time:"
    with said.open("w") as file:
        process = subprocess.Popen([sys.executable, "-X", "importtime", "-m", "samc", "report", "."], stderr=file)
    # not before our first module is there: until then the start is Python's own
    while "samc.interrupt" not in said.read_text() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    process.wait()
    (line,) = (line for line in said.read_text().splitlines() if not line.startswith(imports))
    assert line.startswith("samc: ")


SIGNALLED = """
import signal, types
from samc import cli

def import_module(name):
    try:
        signal.raise_signal(signal.{signal})
    except BaseException:
        raise RuntimeError("some library takes it for a failure of its own")

cli.importlib = types.SimpleNamespace(import_module=import_module)
cli.main(["report", "."])
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_while_a_command_is_imported_is_one_line(name, code):
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED.format(signal=name)], capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert re.fullmatch(r"samc: (stopped|interrupted); nothing half-written is left\n", done.stderr)


def test_the_page_is_drawn_whatever_the_locale(tmp_path):
    record(model="er", seed=0).save(tmp_path)
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    call = [sys.executable, "-m", "samc", "report", tmp_path, "--out", tmp_path / "page.html"]
    done = subprocess.run(call, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "</html>" in (tmp_path / "page.html").read_text(encoding="utf-8")


# C. Misleading


def test_the_largest_budget_is_one_that_we_read_again(tmp_path):
    memory = EpisodicMemory(parse_codec("raw", (1, 4, 4)), 10, Budget(2**53 - 1))
    assert load(memory.save(tmp_path / "memory.samc")).budget == memory.budget
    with pytest.raises(ConfigError, match="a budget is at most 9,007,199,254,740,991 bytes, got 9,007,199,254,740,992"):
        parse_budget(str(2**53))


@pytest.mark.parametrize("seed", [-1, 2**63, 10**400])
def test_a_seed_out_of_range_is_refused_wherever_it_is_given(tmp_path, seed, command):
    with pytest.raises(ConfigError, match="seed is"):
        split_synthetic(seed)
    filled("coo")[0].save(tmp_path / "memory.samc")
    code, out, err = command("memory", "audit", tmp_path, "--against", "split-synthetic", "--seed", seed)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "seed is" in err


@pytest.mark.parametrize("spec", ["jpeg:1", "jpeg:1@8", "focus:jpeg:2", "jpeg:50", "jpeg:100"])
@pytest.mark.parametrize("shape", [(3, 32, 32), (3, 20, 9), (1, 17, 30)])
def test_noise_and_one_colour_pass_the_audit_and_a_single_byte_more_does_not(tmp_path, spec, shape):
    memory = EpisodicMemory(parse_codec(spec, shape), 10, Budget(10**6))
    noise = np.random.default_rng(0).integers(0, 256, (20, *shape), np.uint8)
    flat = np.broadcast_to(noise[:, :, :1, :1], noise.shape)
    for images in (noise, np.ascontiguousarray(flat), smooth_images(20, shape, 0)):
        memory.add(0, images, full_selection(20, *shape[1:]), np.zeros(20, np.int64))
    assert audit(memory.save(tmp_path / "honest.samc")).passed
    held = memory.by_task[0]
    for extra in (b"\0", b"\x7f", b"\xff\xfe\0\4ab"):
        first = held.images.popleft()
        held.images.append(memory.stored_image(first.blob + extra, first.label))
    found = audit(memory.save(tmp_path / "liar.samc"))
    assert found.complaints == ("3 of 60 images carry bytes that their codec would not have written",)


def test_a_report_says_what_it_has_merged(tmp_path, command):
    for number, acc in enumerate((0.5, 0.5, 0.6)):
        record(acc, model="gem", seed=0).save(tmp_path / f"gem-{number}")
    record(0.7, model="er", seed=0).save(tmp_path / "er")
    note = "2 records repeat runs of the same settings, machine, threads and seed (ACC differs by up to 10.0 points)"
    for more in ((), ("--markdown",)):
        code, out, _ = command("report", tmp_path, *more)
        assert code == 0
        assert note in " ".join(out.split())


def test_runs_of_other_threads_stand_apart():
    one, two = (replace(record(model="gem"), device={"name": "cpu", "threads": threads}) for threads in (1, 2))
    (table,) = comparison_tables([one, two])
    assert sorted(cells[0] for cells in table.cells()) == ["gem threads 1", "gem threads 2"]
    _, settings = pair_tables(one, two)
    assert [cells for cells in settings.cells()] == [["threads", "1", "2"]]


def test_a_full_disk_leaves_the_old_picture(tmp_path, command, monkeypatch):
    filled("raw")[0].save(tmp_path / "memory.samc")
    (tmp_path / "a.png").write_bytes(b"the old one")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
    code, _, err = command("memory", "show", tmp_path, "--out", tmp_path / "a.png")
    assert code == 2
    assert re.fullmatch(r"samc: cannot write \S+/a\.png: No space left on device; free some space or .*\n", err)
    assert (tmp_path / "a.png").read_bytes() == b"the old one"
    assert listing(tmp_path) == ["a.png", "memory.samc"]


def test_a_stream_is_tested_on_what_there_is():
    with pytest.raises(ConfigError, match="unknown tested-on 'zz': known: test, held-out"):
        split_synthetic(tested_on="zz")


def test_an_array_in_memory_is_read_like_a_file(tmp_path):
    content = io.BytesIO()
    np.savez(content, x=np.arange(3))
    (tmp_path / "a.npz").write_bytes(content.getvalue())
    assert read_arrays(tmp_path / "a.npz", ("x",))["x"].tolist() == [0, 1, 2]
