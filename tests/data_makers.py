"""Makers of tiny data sets in the official formats, and of the trust that their digests need."""

import gzip
import hashlib
import io
import os
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from samc.streams import cifar, mnist, tiny_imagenet


def real_data(folder: str) -> Path:
    """$SAMC_DATA where it holds the real folder; skips the test where it does not."""
    data_dir = Path(os.environ.get("SAMC_DATA") or "nowhere")
    if not (data_dir / folder).is_dir():
        pytest.skip(f"$SAMC_DATA has no {folder}")
    return data_dir


def python2_pickle(**items: np.ndarray | list[int] | list[str]) -> bytes:
    """A dict of arrays and lists, byte by byte as Python 2 wrote the official CIFAR files (protocol 2)."""

    def string(text: str) -> bytes:
        return b"U" + bytes([len(text)]) + text.encode()

    def value(item: np.ndarray | list[int] | list[str]) -> bytes:
        if isinstance(item, list):
            return (
                b"]("
                + b"".join(string(part) if isinstance(part, str) else b"K" + bytes([part]) for part in item)
                + b"e"
            )
        shape = b"".join(b"M" + struct.pack("<H", side) for side in item.shape) + b"\x86"
        dtype = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        raw = b"T" + struct.pack("<i", item.size) + item.tobytes()
        empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
        return empty + b"(K\x01" + shape + dtype + b"\x89" + raw + b"tb"

    return b"\x80\x02}(" + b"".join(string(key) + value(item) for key, item in items.items()) + b"u."


def make_cifar(
    data_dir: Path, folder: str, monkeypatch: pytest.MonkeyPatch, names: bool = True
) -> dict[str, np.ndarray]:
    """A CIFAR with 20 (or 200) images per file, in one of its layouts, trusted; returns the planes of each file."""
    ten = "-10-" in folder
    classes = 10 if ten else 100
    binary = folder.endswith(("bin", "binary"))
    end = ".bin" if binary else ""
    (data_dir / folder).mkdir(parents=True)
    planes = {}
    for seed, file in enumerate(
        [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"] if ten else ["train", "test"]
    ):
        n = 2 * classes
        pixels = np.random.default_rng(seed).integers(0, 256, (n, 3072), dtype=np.uint8)
        fine = [(seed + i) % classes for i in range(n)]
        coarse = [label // 5 for label in fine]
        labels = {"labels": fine} if ten else {"fine_labels": fine, "coarse_labels": coarse}
        if binary:
            columns = [np.array(column, dtype=np.uint8)[:, None] for column in ([fine] if ten else [coarse, fine])]
            content = np.hstack([*columns, pixels]).tobytes()
            monkeypatch.setitem(cifar.BINARY_BYTES, file + end, len(content))
        else:
            content = python2_pickle(batch_label=["a"], data=pixels, **labels)
        (data_dir / folder / (file + end)).write_bytes(content)
        planes[file] = pixels.reshape(n, 3, 32, 32)
    if names:
        made = [f"name{i}" for i in range(classes)]
        content = python2_pickle(**{"label_names" if ten else "fine_label_names": made})
        (data_dir / folder / cifar.NAME_FILES[folder]).write_bytes("\n".join(made).encode() if binary else content)
    trust(data_dir / folder, monkeypatch)
    return planes


def trust(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the digests of these files the ones that are expected."""
    digests = {}
    for file, official in cifar.DIGESTS[folder.name].items():
        content = (folder / file).read_bytes() if (folder / file).exists() else b""
        digests[file] = hashlib.new("md5" if len(official) == 32 else "sha1", content).hexdigest()
    monkeypatch.setitem(cifar.DIGESTS, folder.name, digests)


def make_mnist(data_dir: Path, monkeypatch: pytest.MonkeyPatch, count: int = 40, gz: bool = True) -> np.ndarray:
    """An MNIST of few images in its four files, trusted; returns the training images."""
    (data_dir / "mnist").mkdir(parents=True)
    made = []
    for part, n in (("train", count), ("t10k", count // 2)):
        pixels = np.random.default_rng(n).integers(0, 256, (n, 28, 28), dtype=np.uint8)
        images = struct.pack(">4I", 0x0803, n, 28, 28) + pixels.tobytes()
        labels = struct.pack(">2I", 0x0801, n) + bytes(i % 10 for i in range(n))
        monkeypatch.setitem(mnist.COUNTS, part, n)
        made.append(pixels)
        for name, content in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            packed = gzip.compress(content, mtime=0)
            (data_dir / "mnist" / (f"{name}.gz" if gz else name)).write_bytes(packed if gz else content)
            monkeypatch.setitem(mnist.DIGESTS, f"{name}.gz", hashlib.md5(packed).hexdigest())
    return made[0]


def zipped(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def encoded(pixels: np.ndarray, kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def tiny_imagenet_files(monkeypatch: pytest.MonkeyPatch, classes: int = 40) -> dict[str, bytes]:
    """A Tiny ImageNet of so many classes, three training images and two validation images each, one of them grey."""
    for name, value in (("CLASSES", classes), ("PER_CLASS", 3), ("TEST_PER_CLASS", 2)):
        monkeypatch.setattr(tiny_imagenet, name, value)
    rng, top = np.random.default_rng(0), "tiny-imagenet-200"
    wnids = [f"n{10_000_000 - label:08}" for label in range(classes)]  # in another order than sorted
    files, lines = {f"{top}/wnids.txt": "\n".join(wnids).encode()}, []
    for label, wnid in enumerate(wnids):
        for number in range(3):
            pixels = np.full((64, 64, 3), 6 * label + number, np.uint8)
            files[f"{top}/train/{wnid}/images/{wnid}_{number}.JPEG"] = encoded(pixels, "JPEG")
        for number in range(2):
            file = f"val_{2 * label + number}.JPEG"
            files[f"{top}/val/images/{file}"] = encoded(rng.integers(0, 256, (64, 64), dtype=np.uint8), "JPEG")
            lines.append(f"{file}\t{wnid}\t0\t0\t62\t62")
    return files | {f"{top}/val/val_annotations.txt": "\n".join(lines).encode(), f"{top}/test/images/test_0.JPEG": b""}


def core50_files(frames: int = 2) -> dict[str, bytes]:
    """A CORe50 of few frames, whose colours say session, object and frame."""
    return {
        f"core50_128x128/s{session}/o{thing}/C_{session:02}_{thing:02}_{frame:03}.png": encoded(
            np.full((16, 16, 3), (session, thing, frame), np.uint8), "PNG"
        )
        for session in range(1, 12)
        for thing in range(1, 51)
        for frame in range(frames)
    }


def put(data_dir: Path, name: str, content: bytes) -> Path:
    """A file below a folder."""
    path = data_dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def make_image(path: Path, colour: tuple[int, int, int] = (0, 0, 0), size: tuple[int, int] = (8, 8)) -> Path:
    """One image of one colour, in the format that its suffix says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def tar(*members: tuple[str, bytes | tarfile.TarInfo]) -> bytes:
    """A tar.gz of files, or of members as they are given."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in members:
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.name = name
            info.size = len(content) if isinstance(content, bytes) else 0
            archive.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return packed.getvalue()


def special(kind: bytes, link: str = "") -> tarfile.TarInfo:
    """A member that is no plain file: a link, a device, a pipe."""
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, link
    return info


def listing(folder: Path) -> list[str]:
    """Every file and folder below a folder, hidden ones too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
