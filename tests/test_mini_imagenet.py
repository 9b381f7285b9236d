"""mini-ImageNet from tiny npz files and image folders, and the real one where $SAMC_DATA has it."""

import numpy as np
import pytest

from data_makers import make_image, real_data
from samc.errors import DataError
from samc.streams.mini_imagenet import load_mini_imagenet

WNIDS = ["n01532829", "n01558993", "n01704323"]


def save(path, per_class=2, seed=0, **changes):
    """A part with three classes; a change replaces an array, or drops it where it is None."""
    path.parent.mkdir(exist_ok=True)
    x = np.random.default_rng(seed).integers(0, 256, (3 * per_class, 84, 84, 3), dtype=np.uint8)
    arrays = {"x": x, "y": np.repeat(np.arange(3, dtype=np.uint8), per_class), "classes": np.array(WNIDS)} | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return x


@pytest.fixture
def folder(tmp_path):
    save(tmp_path / "mini-imagenet" / "train.npz", 4)
    save(tmp_path / "mini-imagenet" / "test.npz", 2, seed=1)
    return tmp_path / "mini-imagenet"


def test_npz_files(tmp_path):
    x = save(tmp_path / "mini-imagenet" / "train.npz", 4)
    test_x = save(tmp_path / "mini-imagenet" / "test.npz", 2, seed=1)
    dataset = load_mini_imagenet(tmp_path)
    np.testing.assert_array_equal(dataset.x, x)
    np.testing.assert_array_equal(dataset.test_x, test_x)
    assert dataset.y.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert dataset.y.dtype == np.int64
    assert dataset.test_y.tolist() == [0, 0, 1, 1, 2, 2]
    assert dataset.class_names == tuple(WNIDS)
    assert dataset.name == "mini-imagenet"


def test_classes_without_names_are_numbered(folder):
    for part in ("train", "test"):
        save(folder / f"{part}.npz", classes=None)
    assert load_mini_imagenet(folder.parent).class_names == ("0", "1", "2")
    for part in ("train", "test"):
        save(folder / f"{part}.npz", classes=None, y=np.array([0, 0, 1, 1, 2, 10**15]))
    with pytest.raises(DataError, match="training labels go from 0 to 3; got 0 to 1000000000000000"):
        load_mini_imagenet(folder.parent)


def test_the_source_tells_two_versions_apart_and_only_two_versions(folder):
    before = load_mini_imagenet(folder.parent).source
    assert before.startswith("mini-ImageNet, npz files, sha1 of the test images ")
    save(folder / "test.npz", 2, seed=1, y=np.repeat(np.arange(3), 2))
    assert load_mini_imagenet(folder.parent).source == before
    save(folder / "test.npz", 2, seed=2)
    assert load_mini_imagenet(folder.parent).source != before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, r"test\.npz has no array 'y', only x, classes; it needs x, y"),
        ({"x": np.zeros((6, 32, 32, 3), np.uint8)}, r"test\.npz: x is \(n, 84, 84, 3\), got \(6, 32, 32, 3\); resize"),
        ({"x": np.zeros((6, 84, 84, 3))}, r"test images are uint8 from 0 to 255, got float64; convert"),
        ({"y": np.zeros(6)}, r"test\.npz: y holds one whole number per image, got float64 \(6,\)"),
        ({"y": np.array([0, 0, 1, 1, 2, 3])}, r"test labels go from 0 to 2; got 0 to 3"),
        ({"y": np.array([0, 0, 1, 1, 2, 10**15])}, r"test labels go from 0 to 2; got 0 to 1000000000000000"),
        ({"y": np.array([0, 0, 1, 1, 1, 1])}, r"class 'n01704323' has no test image"),
        (
            {"classes": np.array(["a", "b", "c"])},
            r"train\.npz and test\.npz name different classes; take both from one",
        ),
        ({"y": np.array([None] * 6)}, r"cannot read .*test\.npz \(Object arrays cannot be loaded.*save plain arrays"),
    ],
)
def test_wrong_arrays_are_explained(folder, changes, message):
    save(folder / "test.npz", **changes)
    with pytest.raises(DataError, match=message):
        load_mini_imagenet(folder.parent)


def test_damaged_files_are_named(folder):
    train = folder / "train.npz"
    whole = train.read_bytes()
    train.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=rf"{train} is not a whole npz file; copy it again"):
        load_mini_imagenet(folder.parent)
    train.write_bytes(whole[:5000] + b"damaged" + whole[5007:])
    with pytest.raises(DataError, match=rf"cannot read {train} \(Bad CRC-32 for file 'x\.npy'\); copy it again"):
        load_mini_imagenet(folder.parent)
    train.write_bytes(whole)
    (folder / "test.npz").unlink()
    with pytest.raises(
        DataError, match=r"test\.npz is not there; save it with numpy\.savez\(path, x=\.\.\., y=\.\.\.\)"
    ):
        load_mini_imagenet(folder.parent)


def test_nothing_there_says_what_to_put_where(tmp_path):
    expected = (
        rf"mini-imagenet is not in {tmp_path}: put train\.npz and test\.npz, or train/<wnid>/\*\.jpg and .*--data-dir"
    )
    with pytest.raises(DataError, match=expected):
        load_mini_imagenet(tmp_path)


@pytest.mark.parametrize("test", ["test", "val"])
def test_image_folders_are_read_in_the_order_of_their_wnids_and_resized(tmp_path, test):
    root = tmp_path / "mini-imagenet"
    for label, wnid in enumerate(WNIDS):
        make_image(root / "train" / wnid / "a.jpg", (90 * label, 90 * label, 90 * label), (84, 84))
        make_image(root / "train" / wnid / "b.JPEG", (90 * label, 90 * label, 90 * label), (120, 100))
        make_image(root / test / wnid / "c.jpg", (80 * label, 80 * label, 80 * label), (84, 84))
    dataset = load_mini_imagenet(tmp_path)
    assert dataset.x.shape == (6, 84, 84, 3)
    assert dataset.class_names == tuple(WNIDS)
    assert dataset.y.tolist() == [0, 0, 1, 1, 2, 2]
    assert dataset.x.mean(axis=(1, 2, 3)).tolist() == [0, 0, 90, 90, 180, 180]
    assert dataset.test_x.mean(axis=(1, 2, 3)).tolist() == [0, 80, 160]
    assert f"image files from train/ and {test}/, bilinear to 84x84 where they had another size" in dataset.source


def test_image_folders_need_test_images(tmp_path):
    make_image(tmp_path / "mini-imagenet" / "train" / WNIDS[0] / "a.jpg")
    with pytest.raises(DataError, match=r"mini-imagenet has train/ but neither test/ nor val/; put train\.npz and"):
        load_mini_imagenet(tmp_path)


def test_real_mini_imagenet():
    dataset = load_mini_imagenet(real_data("mini-imagenet"))
    assert (dataset.x.shape, dataset.test_x.shape) == ((50_000, 84, 84, 3), (10_000, 84, 84, 3))
    assert (np.bincount(dataset.y) == 500).all()
    assert (np.bincount(dataset.test_y) == 100).all()
    assert len(set(dataset.class_names)) == 100
    assert sorted(dataset.class_names) == list(dataset.class_names)
    assert all(name[0] == "n" and name[1:].isdigit() and len(name) == 9 for name in dataset.class_names)
