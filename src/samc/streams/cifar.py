"""CIFAR-10 and CIFAR-100 from the official files, each of which must have its published digest before it is parsed."""

import hashlib
import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from samc.errors import DataError
from samc.files import read_regular
from samc.streams.base import Dataset
from samc.streams.names import listed

FOLDERS = {
    "cifar10": ("cifar-10-batches-py", "cifar-10-batches-bin"),
    "cifar100": ("cifar-100-python", "cifar-100-binary"),
}
# the folders of the official archives; where both are there, the first is read

DIGESTS = {
    "cifar-10-batches-py": {
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
        "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    },
    "cifar-100-python": {
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "meta": "7973b15100ade9c7d40fb424638fde48",
    },
    "cifar-10-batches-bin": {
        "data_batch_1.bin": "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
        "data_batch_2.bin": "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
        "data_batch_3.bin": "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
        "data_batch_4.bin": "aab85764eb3584312d3c7f65fd2fd016e36a258e",
        "data_batch_5.bin": "26e2849e66a845b7f1e4614ae70f4889ae604628",
        "test_batch.bin": "67eb016db431130d61cd03c7ad570b013799c88c",
    },
    "cifar-100-binary": {
        "train.bin": "e207cd2e05b73b1393c74c7f5e7bea451d63e08e",
        "test.bin": "8fb6623e830365ff53cf14adec797474f5478006",
    },
}
# md5 (32 digits) as in torchvision, sha1 (40 digits) as in MXNet; those of cifar-100-binary are also what the images of
# cifar-100-python give when written out as binary, so both layouts hold the same images in the same order

BINARY_BYTES = {
    **dict.fromkeys(DIGESTS["cifar-10-batches-bin"], 10_000 * 3073),
    "train.bin": 50_000 * 3074,
    "test.bin": 10_000 * 3074,
}

MOST_BYTES = 2**28
# of one file; the largest, a binary layout's, has 153,700,000

NAME_FILES = {
    "cifar-10-batches-py": "batches.meta",
    "cifar-10-batches-bin": "batches.meta.txt",
    "cifar-100-python": "meta",
    "cifar-100-binary": "fine_label_names.txt",
}

COARSE_NAMES = {"cifar-100-python": "meta", "cifar-100-binary": "coarse_label_names.txt"}

NAME_KEYS = {"cifar10": b"label_names", "cifar100": b"fine_label_names"}

Part = tuple[np.ndarray, np.ndarray]
# images and their labels: one column of them, or the coarse and the fine


def load_cifar10(data_dir: Path) -> Dataset:
    """CIFAR-10 from cifar-10-batches-py/ or cifar-10-batches-bin/ under data_dir."""
    return load("cifar10", data_dir, [f"data_batch_{number}" for number in range(1, 6)], "test_batch")


def load_cifar100(data_dir: Path) -> Dataset:
    """CIFAR-100 with its fine labels, from cifar-100-python/ or cifar-100-binary/ under data_dir."""
    return load("cifar100", data_dir, ["train"], "test")


def load_cifar100_domains(data_dir: Path) -> Dataset:
    """CIFAR-100 with its twenty superclasses, each of five domains: its first subclass, its second, and so on."""
    folder, (x, labels), (test_x, test_labels) = read_all("cifar100", data_dir, ["train"], "test")
    pairs = sorted({(int(coarse), int(fine)) for coarse, fine in labels})
    place = {fine: place for place, fine in enumerate(fine for _, fine in pairs)}
    coarse = [label for label, _ in pairs]
    if coarse != [label for label in range(20) for _ in range(5)] or len(place) != 100:
        raise DataError(f"{folder}: its fine labels are not five to each of twenty coarse ones; fetch it again")
    domain, test_domain = (np.array([place[int(fine)] % 5 for fine in part[:, -1]]) for part in (labels, test_labels))
    names = class_names(folder, "cifar100", "cifar100-domains", COARSE_NAMES, b"coarse_label_names")
    y, test_y = labels[:, 0], test_labels[:, 0]
    return Dataset("cifar100-domains", x, y, test_x, test_y, names, source_of("cifar100"), domain, test_domain)


def find_folder(name: str, data_dir: Path) -> Path | None:
    """The folder from which this CIFAR would be read, or None where there is none."""
    return next((data_dir / folder for folder in FOLDERS[name] if (data_dir / folder).is_dir()), None)


def load(name: str, data_dir: Path, train: list[str], test: str) -> Dataset:
    """A CIFAR with its own labels; of CIFAR-100 the fine ones."""
    folder, (x, labels), (test_x, test_labels) = read_all(name, data_dir, train, test)
    names = class_names(folder, name, name, NAME_FILES, NAME_KEYS[name])
    return Dataset(name, x, labels[:, -1], test_x, test_labels[:, -1], names, source_of(name))


def read_all(name: str, data_dir: Path, train: list[str], test: str) -> tuple[Path, Part, Part]:
    """Every part of a CIFAR in whichever layout is there, and the folder that it was read from."""
    folder = find_folder(name, data_dir)
    if folder is None:
        wanted = " or ".join(f"{folder}/" for folder in FOLDERS[name])
        raise DataError(
            f"{name} is not in {data_dir}: expected {wanted} there; "
            f"run `samc data fetch {name}`, or point --data-dir at the folder that holds it"
        )
    read = read_pickled if folder.name == FOLDERS[name][0] else read_binary
    return folder, concatenate([read(folder, file, name) for file in train]), concatenate([read(folder, test, name)])


def source_of(name: str) -> str:
    """Both layouts hold the same images, so that it does not say which one was read."""
    return f"{name.upper().replace('CIFAR', 'CIFAR-')}, official files, checksums verified"


def read_pickled(folder: Path, file: str, name: str) -> Part:
    """Pixels (n, 3072) and labels of one file of a Python layout."""
    batch = unpickle(read_checked(folder / file, name), f"{folder / file}")
    columns = [b"labels"] if name == "cifar10" else [b"coarse_labels", b"fine_labels"]
    return batch[b"data"], np.array([batch[column] for column in columns], dtype=np.int64).T


def read_binary(folder: Path, file: str, name: str) -> Part:
    """Pixels (n, 3072) and labels of one file of a binary layout; the labels stand before the pixels."""
    row_bytes = 3073 if name == "cifar10" else 3074
    content = read_checked(folder / f"{file}.bin", name)
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, row_bytes)
    return rows[:, -3072:], rows[:, :-3072].astype(np.int64)


def concatenate(parts: list[Part]) -> Part:
    """All parts as images (n, 32, 32, 3) and labels (n, k); the files store one colour plane after another."""
    y = np.concatenate([labels for _, labels in parts])
    x = np.empty((len(y), 32, 32, 3), dtype=np.uint8)
    start = 0
    for pixels, labels in parts:
        x[start : start + len(labels)] = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        start += len(labels)
    return x, y


def class_names(folder: Path, name: str, names_of: str, files: Mapping[str, str], key: bytes) -> tuple[str, ...]:
    """The names that came with the files, or the package's list where the file of names, or its part, was left out."""
    path, expected = folder / files[folder.name], tuple(listed()[names_of])
    if not path.exists():
        return expected
    content = read_checked(path, name)
    if path.suffix == ".txt":
        names = tuple(content.decode("latin1").split())
    else:
        names = tuple(label.decode() for label in unpickle(content, f"{path}").get(key, ())) or expected
    if len(names) != len(expected):
        raise DataError(f"{path} has {len(names)} class names instead of {len(expected)}; restore or delete it")
    return names


def read_checked(path: Path, name: str) -> bytes:
    """A file's content, once its size and digest are known to be right."""
    remedy = f"run `samc data fetch {name}` to get it again"
    content = read_regular(path, MOST_BYTES, remedy)
    size = BINARY_BYTES.get(path.name, len(content))
    if len(content) != size:
        raise DataError(f"{path} has {len(content):,} bytes instead of {size:,}; {remedy}")
    expected = DIGESTS[path.parent.name].get(path.name)
    if expected is not None:
        algorithm = "md5" if len(expected) == 32 else "sha1"
        found = hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()
        if found != expected:
            raise DataError(f"{path} is damaged: {algorithm} {found} instead of {expected}; {remedy}")
    return content


ALLOWED = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    # numpy's own function for rebuilding an array, taken from an array because it has moved between numpy versions
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
}


class ArrayUnpickler(pickle.Unpickler):
    """Reads arrays, numbers, strings and their containers; any other global is refused before it is looked up."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise DataError(f"asks for {module}.{name}") from None


def unpickle(content: bytes, origin: str) -> Any:
    """What a pickle of arrays holds. Python 2 wrote the official files: their strings come back as bytes."""
    try:
        return ArrayUnpickler(io.BytesIO(content), encoding="bytes").load()
    except DataError as error:
        raise DataError(f"{origin} {error}, which no file of arrays needs; do not use it, fetch it again") from None
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise DataError(f"{origin} is not a whole pickle ({type(error).__name__}); fetch it again") from None
