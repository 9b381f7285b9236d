"""The official files of data sets: where they are, their md5 and size, and whether a copy that is here is intact."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from samc.errors import DataError
from samc.streams import cifar, core50, mnist, tiny_imagenet, trees
from samc.streams.base import Dataset

MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
# the mirror that torchvision asks first; its author's own page no longer answers everybody


@dataclass(frozen=True)
class File:
    """An official file: where it is, its md5 and its size."""

    url: str
    md5: str
    nbytes: int

    @property
    def file_name(self) -> str:
        return PurePosixPath(self.url).name


@dataclass(frozen=True)
class Archive(File):
    """An official archive, the folder it unpacks to, and where an intact copy is, if there is one.

    One that is not `unpacked` is read as it is, and lies in that folder with what belongs to it (`more`).
    """

    folder: str
    intact: Callable[[Path], Path | None]
    unpacked: bool = True
    more: tuple[File, ...] = ()

    @property
    def files(self) -> tuple[File, ...]:
        return self, *self.more


def readable(load: Callable[[Path], Dataset], find: Callable[[Path], Path | None]) -> Callable[[Path], Path | None]:
    """Where a data set is that passes every check of its loader."""

    def intact(data_dir: Path) -> Path | None:
        try:
            load(data_dir)
        except DataError:
            return None
        return find(data_dir)

    return intact


def whole_file(name: str, folders: tuple[str, ...], packed: str) -> Callable[[Path], Path | None]:
    """Where a large data set is: its unpacked folder, whose files are looked at when they are read, or its archive."""

    def intact(data_dir: Path) -> Path | None:
        found = trees.find_tree(data_dir, folders, packed)
        return found if found and (found.is_dir() or has_md5(found, ARCHIVES[name].md5)) else None

    return intact


def has_md5(path: Path, md5: str) -> bool:
    """Whether a file has a digest, which takes a second for half a gigabyte."""
    import pooch  # noqa: PLC0415  (only a large archive needs it)

    return pooch.file_hash(path, alg="md5") == md5


ARCHIVES = {
    "cifar10": Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
        170_498_071,
        "cifar-10-batches-py",
        readable(cifar.load_cifar10, partial(cifar.find_folder, "cifar10")),
    ),
    "cifar100": Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
        169_001_437,
        "cifar-100-python",
        readable(cifar.load_cifar100, partial(cifar.find_folder, "cifar100")),
    ),
    "mnist": Archive(
        f"{MNIST}/train-images-idx3-ubyte.gz",
        mnist.DIGESTS["train-images-idx3-ubyte.gz"],
        9_912_422,
        "mnist",
        readable(mnist.load_mnist, mnist.find_folder),
        unpacked=False,
        more=tuple(
            File(f"{MNIST}/{name}", mnist.DIGESTS[name], size)
            for name, size in (
                ("train-labels-idx1-ubyte.gz", 28_881),
                ("t10k-images-idx3-ubyte.gz", 1_648_877),
                ("t10k-labels-idx1-ubyte.gz", 4_542),
            )
        ),
    ),
    "tiny-imagenet": Archive(
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        "90528d7ca1a48142e341f4ef8d21d0de",
        248_100_043,
        "tiny-imagenet",
        whole_file("tiny-imagenet", tiny_imagenet.FOLDERS, tiny_imagenet.ARCHIVE),
        unpacked=False,
    ),
    "core50": Archive(
        "http://bias.csr.unibo.it/maltoni/download/core50/core50_128x128.zip",
        "745f3373fed08d69343f1058ee559e13",
        5_892_103_007,
        "core50",
        whole_file("core50", core50.FOLDERS, core50.ARCHIVE),
        unpacked=False,
    ),
}
# md5 of CIFAR and MNIST as in torchvision, of the last two as in Avalanche and other libraries; their authors give none
