"""Fetching from a server on this machine: all or nothing, whatever goes wrong."""

import errno
import hashlib
import subprocess
import sys
import tarfile
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from data_makers import listing, make_cifar, special, tar
from samc.errors import ConfigError, DataError, OutputError
from samc.streams import cifar
from samc.streams.archives import ARCHIVES
from samc.streams.download import CHUNK_BYTES, ProgressFile
from samc.streams.fetch import default_data_dir, fetch, move_into_place

FOLDER = "cifar-100-python"
BY_HAND = rf"download cifar-100-python\.tar\.gz elsewhere and unpack it so that .*/{FOLDER}/train exists"


@pytest.fixture
def serve(monkeypatch):
    """serve(body) answers every request with it, and makes its md5 the expected one.

    Length and status can be wrong, and it can hold the connection open without another byte.
    """
    monkeypatch.setenv("no_proxy", "*")
    servers, released = [], threading.Event()

    def start(body: bytes, length: int | str | None = None, status: int = 200, hold: bool = False) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.asked += 1
                server.headers = self.headers
                self.send_response(status)
                if length != -1:
                    self.send_header("Content-Length", str(length or len(body)))
                self.end_headers()
                self.wfile.write(body)
                if hold:  # the connection stays open, and nothing comes any more
                    released.wait(10)

            def log_message(self, *arguments):
                """Says nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.asked = 0
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        url = f"http://127.0.0.1:{server.server_port}/cifar-100-python.tar.gz"
        expect(monkeypatch, body)
        monkeypatch.setitem(ARCHIVES, "cifar100", replace(ARCHIVES["cifar100"], url=url))
        return url

    start.servers = servers
    yield start
    released.set()
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def expect(monkeypatch, body: bytes) -> None:
    md5 = hashlib.md5(body).hexdigest()
    monkeypatch.setitem(ARCHIVES, "cifar100", replace(ARCHIVES["cifar100"], md5=md5))


@pytest.fixture
def body(tmp_path, monkeypatch) -> bytes:
    """An archive of a whole small CIFAR-100, which the loader accepts once it is unpacked."""
    made = tmp_path / "made"
    make_cifar(made, FOLDER, monkeypatch)
    return tar(*((f"{FOLDER}/{path.name}", path.read_bytes()) for path in sorted((made / FOLDER).iterdir())))


@pytest.fixture
def data_dir(tmp_path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def damaged(data_dir) -> list[str]:
    """A copy that is there but damaged, with its listing."""
    (data_dir / FOLDER).mkdir(parents=True)
    (data_dir / FOLDER / "train").write_bytes(b"half of it")
    return [FOLDER, f"{FOLDER}/train"]


def test_success_leaves_the_folder_and_nothing_else(serve, body, data_dir):
    serve(body)
    seen = []
    assert fetch("cifar100", data_dir, progress=lambda *now: seen.append(now)) == data_dir / FOLDER
    assert listing(data_dir) == [FOLDER, *(f"{FOLDER}/{file}" for file in ("meta", "test", "train"))]
    assert seen[0] == (0, len(body))
    assert seen[-1] == (len(body), len(body))
    assert len(seen) > 3
    assert seen == sorted(seen)
    assert len(cifar.load_cifar100(data_dir).x) == 200


def test_a_server_that_does_not_say_the_length(serve, body, data_dir):
    serve(body, length=-1)
    seen = []
    fetch("cifar100", data_dir, progress=lambda *now: seen.append(now))
    assert seen[-1] == (len(body), None)
    assert (data_dir / FOLDER / "train").exists()


def test_another_address_goes_by_the_same_md5(serve, body, data_dir, tmp_path, monkeypatch):
    (tmp_path / "mirror.tar.gz").write_bytes(body)
    expect(monkeypatch, body)
    fetch("cifar100", data_dir, url=(tmp_path / "mirror.tar.gz").as_uri())
    assert (data_dir / FOLDER / "train").exists()


def test_what_is_already_there_is_not_fetched(serve, body, data_dir):
    serve(body)
    fetch("cifar100", data_dir)
    seen = []
    assert fetch("cifar100", data_dir, progress=lambda *now: seen.append(now)) == data_dir / FOLDER
    assert seen == []
    assert serve.servers[0][0].asked == 1


def test_the_binary_layout_counts_as_already_there(data_dir, monkeypatch):
    make_cifar(data_dir, "cifar-100-binary", monkeypatch)
    assert fetch("cifar100", data_dir) == data_dir / "cifar-100-binary"


def test_a_damaged_copy_is_replaced(serve, body, data_dir, damaged):
    serve(body)
    fetch("cifar100", data_dir)
    assert len(cifar.load_cifar100(data_dir).x) == 200
    assert listing(data_dir) == [FOLDER, *(f"{FOLDER}/{file}" for file in ("meta", "test", "train"))]


def assert_untouched(data_dir, damaged):
    assert listing(data_dir) == damaged
    assert (data_dir / FOLDER / "train").read_bytes() == b"half of it"


def test_a_cut_connection(serve, body, data_dir, damaged):
    serve(body, length=len(body) + 1000)
    kept = len(body) // CHUNK_BYTES * CHUNK_BYTES  # the last chunk never became whole
    message = rf"was cut after {kept:,} of {len(body) + 1000:,} bytes; try again, or {BY_HAND}"
    with pytest.raises(DataError, match=message):
        fetch("cifar100", data_dir)
    assert_untouched(data_dir, damaged)


def test_a_wrong_md5(serve, body, data_dir, damaged, monkeypatch):
    serve(body)
    expect(monkeypatch, b"something else")
    found, expected = (hashlib.md5(content).hexdigest() for content in (body, b"something else"))
    message = (
        rf"gave another file than cifar-100-python\.tar\.gz: md5 {found} instead of {expected}; try again, or {BY_HAND}"
    )
    with pytest.raises(DataError, match=message):
        fetch("cifar100", data_dir)
    assert_untouched(data_dir, damaged)


def test_a_server_that_answers_404(serve, data_dir, damaged):
    url = serve(b"not here", status=404)
    with pytest.raises(DataError, match=rf"{url} answers 404 Not Found; {BY_HAND}"):
        fetch("cifar100", data_dir)
    assert_untouched(data_dir, damaged)


@pytest.mark.parametrize(
    ("url", "reason"),
    [("http://127.0.0.1:9/a.tar.gz", "refused"), ("nonsense", "No scheme"), ("sftp://a/b", "No connection adapters")],
)
def test_a_server_that_cannot_be_reached(data_dir, damaged, monkeypatch, url, reason):
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(DataError, match=rf"^cannot reach {url} \(.*{reason}.*\): {BY_HAND}$"):
        fetch("cifar100", data_dir, url=url)
    assert_untouched(data_dir, damaged)


def test_a_server_that_stops_answering(serve, body, data_dir, damaged, monkeypatch):
    monkeypatch.setattr("samc.streams.download.TIMEOUT_SECONDS", 0.2)
    monkeypatch.setenv("no_proxy", "*")
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as deaf,  # accepts, but nobody serves
        pytest.raises(DataError, match=rf"cannot reach .*timed out.*\): {BY_HAND}"),
    ):
        fetch("cifar100", data_dir, url=f"http://127.0.0.1:{deaf.server_port}/a.tar.gz")
    assert_untouched(data_dir, damaged)


def test_a_server_that_falls_silent_half_way(serve, body, data_dir, damaged, monkeypatch):
    monkeypatch.setattr("samc.streams.download.TIMEOUT_SECONDS", 0.2)
    serve(body, length=len(body) + 1000, hold=True)
    with pytest.raises(DataError, match=rf"the connection to .* was lost \(.*timed out.*\); try again, or {BY_HAND}"):
        fetch("cifar100", data_dir)
    assert_untouched(data_dir, damaged)


def test_a_length_that_is_no_number(serve, body, data_dir, damaged):
    serve(body, length="long")
    with pytest.raises(DataError, match=rf"^cannot reach .*: {BY_HAND}$"):
        fetch("cifar100", data_dir)
    assert_untouched(data_dir, damaged)


def test_what_the_server_packs_is_not_unpacked_on_the_way(serve, body, data_dir):
    serve(body)
    fetch("cifar100", data_dir)
    assert serve.servers[0][0].headers["Accept-Encoding"] == "identity"


def test_a_full_disk_while_copying_is_not_blamed_on_the_source(data_dir, damaged, tmp_path, body, monkeypatch):
    (tmp_path / "mirror.tar.gz").write_bytes(body)

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ProgressFile, "write", full)
    with pytest.raises(OutputError, match=rf"cannot write to {data_dir} \(No space left on device\)"):
        fetch("cifar100", data_dir, url=(tmp_path / "mirror.tar.gz").as_uri())
    assert_untouched(data_dir, damaged)


@pytest.mark.slow
def test_pooch_is_imported_by_a_download_only():
    code = "import sys, samc.streams.fetch; sys.exit(bool({'pooch', 'requests'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("../evil", b"x"),
        (f"{FOLDER}/../../evil", b"x"),
        (f"{FOLDER}/../other", b"x"),
        ("/tmp/samc-evil", b"x"),
        ("other/evil", b"x"),
        ("evil", b"x"),
        (f"{FOLDER}/link", special(tarfile.SYMTYPE, "/etc/passwd")),
        (f"{FOLDER}/link", special(tarfile.SYMTYPE, "train")),
        (f"{FOLDER}/link", special(tarfile.LNKTYPE, f"{FOLDER}/train")),
        (f"{FOLDER}/device", special(tarfile.CHRTYPE)),
        (f"{FOLDER}/pipe", special(tarfile.FIFOTYPE)),
    ],
)
def test_an_archive_that_reaches_outside_is_refused_whole(serve, data_dir, damaged, name, content):
    serve(tar((f"{FOLDER}/train", b"good"), (name, content)))
    before = listing(data_dir.parent)
    with pytest.raises(
        DataError, match=rf"the archive holds '{name}', which is no plain file in {FOLDER}/; do not use it"
    ):
        fetch("cifar100", data_dir)
    assert listing(data_dir.parent) == before
    assert not Path("/tmp/samc-evil").exists()
    assert_untouched(data_dir, damaged)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no archive at all", "the archive cannot be unpacked"),
        (tar((f"{FOLDER}/train", bytes(100_000)))[:-20], "the archive cannot be unpacked"),
        (tar(), f"the archive holds no folder {FOLDER}/"),
    ],
    ids=["not an archive", "cut short", "empty"],  # the bytes hold the time, by which workers would differ
)
def test_an_archive_that_is_none(serve, data_dir, damaged, content, message):
    serve(content)
    with pytest.raises(DataError, match=message):
        fetch("cifar100", data_dir)
    assert_untouched(data_dir, damaged)


def test_an_interrupted_download_leaves_nothing(serve, body, data_dir, damaged):
    serve(body)

    def interrupt(done, total):
        if done:
            assert len(listing(data_dir)) > len(damaged)  # there is something to clean up
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("cifar100", data_dir, progress=interrupt)
    assert_untouched(data_dir, damaged)


def test_a_full_disk_leaves_nothing(serve, body, data_dir, damaged, monkeypatch):
    serve(body)

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "makefile", full)
    with pytest.raises(
        OutputError, match=rf"cannot write to {data_dir} \(No space left on device\); make room, or choose"
    ):
        fetch("cifar100", data_dir)
    assert_untouched(data_dir, damaged)


def test_a_data_dir_that_is_a_file(serve, body, data_dir):
    serve(body)
    data_dir.write_text("in the way")
    with pytest.raises(OutputError, match=rf"cannot write to {data_dir} \(File exists\)"):
        fetch("cifar100", data_dir)
    assert data_dir.read_text() == "in the way"


def test_the_old_folder_comes_back_when_the_new_one_cannot_be_put(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_text("old")
    with pytest.raises(FileNotFoundError):
        move_into_place(tmp_path / "gone", tmp_path / "old", tmp_path / "aside")
    assert listing(tmp_path) == ["old", "old/file"]


def test_names_that_cannot_be_fetched(tmp_path):
    with pytest.raises(ConfigError, match="unknown data set 'cifar1000': did you mean 'cifar100'"):
        fetch("cifar1000", tmp_path)
    message = (
        rf"mini-imagenet cannot be fetched, as ImageNet's terms .*: get it .* put train\.npz and .* under {tmp_path}$"
    )
    with pytest.raises(DataError, match=message):
        fetch("mini-imagenet", tmp_path)
    assert listing(tmp_path) == []


def test_where_data_sets_are_looked_for(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("SAMC_DATA", "~/data")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_data_dir() == Path("/home/somebody/data")
    monkeypatch.setenv("SAMC_DATA", "")
    assert default_data_dir() == Path("/cache/samc")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_data_dir() == Path("/home/somebody/.cache/samc")
