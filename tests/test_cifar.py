"""CIFAR from tiny fakes of the official files, from damaged ones, and from the real ones where $SAMC_DATA has them."""

import hashlib
import os
import pickle

import numpy as np
import pytest

from data_makers import make_cifar, real_data, trust
from samc.errors import DataError
from samc.streams.base import check
from samc.streams.cifar import BINARY_BYTES, DIGESTS, FOLDERS, load_cifar10, load_cifar100, unpickle
from samc.streams.names import listed

LOADERS = {"cifar10": load_cifar10, "cifar100": load_cifar100}
LAYOUTS = [(name, folder) for name, folders in FOLDERS.items() for folder in folders]


@pytest.mark.parametrize(("name", "folder"), LAYOUTS)
def test_every_layout_gives_the_pixels_and_labels_that_were_written(tmp_path, monkeypatch, name, folder):
    planes = make_cifar(tmp_path, folder, monkeypatch)
    dataset = LOADERS[name](tmp_path)
    check(dataset)
    test = planes.pop("test_batch" if name == "cifar10" else "test")
    stored = np.concatenate(list(planes.values()))
    assert dataset.x.shape == (len(stored), 32, 32, 3)
    assert dataset.x.dtype == np.uint8
    assert dataset.x.flags.c_contiguous
    for colour in range(3):
        np.testing.assert_array_equal(dataset.x[..., colour], stored[:, colour])
        np.testing.assert_array_equal(dataset.test_x[..., colour], test[:, colour])
    # file number s starts at label s and counts up
    classes = len(dataset.class_names)
    np.testing.assert_array_equal(
        dataset.y, [(s + i) % classes for s in range(len(planes)) for i in range(2 * classes)]
    )
    np.testing.assert_array_equal(dataset.test_y, [(len(planes) + i) % classes for i in range(2 * classes)])
    assert dataset.class_names == tuple(f"name{i}" for i in range(classes))
    assert dataset.name == name


def test_both_layouts_have_one_source_and_the_python_one_goes_first(tmp_path, monkeypatch):
    make_cifar(tmp_path, "cifar-100-binary", monkeypatch, names=False)
    binary = load_cifar100(tmp_path)
    make_cifar(tmp_path, "cifar-100-python", monkeypatch)
    python = load_cifar100(tmp_path)
    assert binary.source == python.source == "CIFAR-100, official files, checksums verified"
    assert (binary.class_names[:2], python.class_names[:2]) == (("apple", "aquarium_fish"), ("name0", "name1"))


@pytest.mark.parametrize("folder", FOLDERS["cifar10"])
def test_cifar10_has_its_well_known_names_without_the_file_of_names(tmp_path, monkeypatch, folder):
    make_cifar(tmp_path, folder, monkeypatch, names=False)
    assert load_cifar10(tmp_path).class_names == tuple(listed()["cifar10"])


def test_a_file_of_names_with_the_wrong_number_of_names_is_refused(tmp_path, monkeypatch):
    make_cifar(tmp_path, "cifar-10-batches-bin", monkeypatch)
    (tmp_path / "cifar-10-batches-bin" / "batches.meta.txt").write_text("cat\ndog\n")
    with pytest.raises(DataError, match=r"batches\.meta\.txt has 2 class names instead of 10; restore or delete it"):
        load_cifar10(tmp_path)


@pytest.mark.parametrize("name", LOADERS)
def test_missing_data_names_the_folders_the_place_and_the_command(tmp_path, name):
    first, second = FOLDERS[name]
    remedy = f"{name} is not in {tmp_path}: expected {first}/ or {second}/ there; run `samc data fetch {name}`"
    with pytest.raises(DataError, match=remedy):
        LOADERS[name](tmp_path)


@pytest.mark.parametrize(("name", "folder"), LAYOUTS)
def test_a_missing_file_is_named(tmp_path, monkeypatch, name, folder):
    make_cifar(tmp_path, folder, monkeypatch)
    lost = sorted((tmp_path / folder).glob("test*"))[0]
    lost.unlink()
    with pytest.raises(DataError, match=rf"{lost} is not there; run `samc data fetch {name}` to get it again"):
        LOADERS[name](tmp_path)


@pytest.mark.parametrize(("name", "folder"), LAYOUTS)
def test_one_flipped_bit_is_found_in_every_file_with_a_digest(tmp_path, monkeypatch, name, folder):
    make_cifar(tmp_path, folder, monkeypatch)
    files = [path for path in (tmp_path / folder).iterdir() if path.suffix != ".txt"]
    assert len(files) == {"py": 7, "bin": 6, "python": 3, "binary": 2}[folder.split("-")[-1]]
    for path in files:
        whole = path.read_bytes()
        path.write_bytes(whole[:-50] + bytes([whole[-50] ^ 1]) + whole[-49:])
        with pytest.raises(
            DataError, match=rf"{path} is damaged: (md5|sha1) \w+ instead of \w+; run `samc data fetch {name}`"
        ):
            LOADERS[name](tmp_path)
        path.write_bytes(whole)


@pytest.mark.parametrize(
    ("name", "file", "size"), [("cifar10", "data_batch_3.bin", 61_460), ("cifar100", "train.bin", 614_800)]
)
def test_a_truncated_binary_file_says_how_many_bytes_are_there(tmp_path, monkeypatch, name, file, size):
    folder = FOLDERS[name][1]
    make_cifar(tmp_path, folder, monkeypatch)
    path = tmp_path / folder / file
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=f"{path} has {size - 1:,} bytes instead of {size:,}; run `samc data fetch"):
        LOADERS[name](tmp_path)


def test_the_official_binary_sizes():
    assert BINARY_BYTES["data_batch_1.bin"] == BINARY_BYTES["test_batch.bin"] == 30_730_000
    assert (BINARY_BYTES["train.bin"], BINARY_BYTES["test.bin"]) == (153_700_000, 30_740_000)


class Evil:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_runs_code_is_refused_and_runs_nothing(tmp_path, protocol):
    trace = tmp_path / "trace"
    for call, argument in ((os.system, f"touch {trace}"), (eval, f"open({str(trace)!r}, 'w')"), (getattr, "any")):
        asked = rf"(posix|nt|builtins|__builtin__)\.{call.__name__}"
        with pytest.raises(DataError, match=rf"^evil asks for {asked}, which no file of arrays needs; do not use it"):
            unpickle(pickle.dumps([1, Evil(call, argument)], protocol), "evil")
    assert not trace.exists()


@pytest.mark.parametrize("call", [np.load, np.fromfile, np.memmap])
def test_even_numpy_is_not_admitted_beyond_plain_arrays(call):
    with pytest.raises(DataError, match=r"asks for numpy"):
        unpickle(pickle.dumps(Evil(call, "/etc/passwd"), 2), "evil")


def test_a_malicious_file_never_reaches_the_unpickler_while_its_md5_is_wrong(tmp_path, monkeypatch):
    make_cifar(tmp_path, "cifar-100-python", monkeypatch)
    train = tmp_path / "cifar-100-python" / "train"
    train.write_bytes(pickle.dumps(Evil(os.system, "true"), 2))
    with pytest.raises(DataError, match=r"train is damaged: md5"):
        load_cifar100(tmp_path)
    trust(train.parent, monkeypatch)
    with pytest.raises(DataError, match=r"train asks for posix\.system|train asks for nt\.system"):
        load_cifar100(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x02}", b"not a pickle", b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f"]
)
def test_what_is_not_a_whole_pickle_is_one_line(content):
    with pytest.raises(DataError, match=r"^here is not a whole pickle \(\w+\); fetch it again$"):
        unpickle(content, "here")


def test_arrays_pickled_by_a_modern_numpy_are_admitted():
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    np.testing.assert_array_equal(unpickle(pickle.dumps(array, 4), "here"), array)


def test_real_cifar100():
    dataset = load_cifar100(real_data("cifar-100-python"))
    check(dataset)
    assert (dataset.x.shape, dataset.test_x.shape) == ((50_000, 32, 32, 3), (10_000, 32, 32, 3))
    assert (np.bincount(dataset.y) == 500).all()
    assert (np.bincount(dataset.test_y) == 100).all()
    assert (dataset.class_names[0], dataset.class_names[99], len(dataset.class_names)) == ("apple", "worm", 100)
    assert sorted(dataset.class_names) == list(dataset.class_names)


def test_real_cifar10():
    dataset = load_cifar10(real_data("cifar-10-batches-bin"))
    check(dataset)
    assert (dataset.x.shape, dataset.test_x.shape) == ((50_000, 32, 32, 3), (10_000, 32, 32, 3))
    assert (np.bincount(dataset.y) == 5000).all()
    assert (np.bincount(dataset.test_y) == 1000).all()
    assert dataset.y[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert dataset.class_names == tuple(listed()["cifar10"])
    mean = dataset.x.reshape(-1, 3).mean(axis=0) / 255
    # the last is 0.44653, which is usually quoted as 0.4465
    np.testing.assert_allclose(mean, (0.4914, 0.4822, 0.4465), atol=5e-5)


def test_the_digests_of_the_binary_cifar100_are_those_of_the_real_python_files_as_records():
    folder = real_data("cifar-100-python") / "cifar-100-python"
    for file, digest in (
        ("train", DIGESTS["cifar-100-binary"]["train.bin"]),
        ("test", DIGESTS["cifar-100-binary"]["test.bin"]),
    ):
        batch = unpickle((folder / file).read_bytes(), file)
        labels = np.array([batch[b"coarse_labels"], batch[b"fine_labels"]], dtype=np.uint8).T
        assert hashlib.sha1(np.hstack([labels, batch[b"data"]]).data).hexdigest() == digest
