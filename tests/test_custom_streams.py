"""Your own arrays and folders: what is read, what is held out, and what each mistake says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from data_makers import make_image
from samc.errors import ConfigError, DataError
from samc.streams.base import split
from samc.streams.custom import held_out_rows, load_folder, load_npz

X = np.arange(10 * 4 * 4 * 3, dtype=np.uint8).reshape(10, 4, 4, 3)
Y = np.array([7, 3] * 5)


def saved(path, **arrays):
    path.parent.mkdir(exist_ok=True)
    np.savez(path, **arrays)
    return path


def test_npz_maps_labels_to_sorted_classes_and_keeps_their_names(tmp_path):
    dataset = load_npz(saved(tmp_path / "toy.npz", x=X, y=Y, x_test=X[:2], y_test=np.array([3, 7])))
    np.testing.assert_array_equal(dataset.x, X)
    np.testing.assert_array_equal(dataset.test_x, X[:2])
    assert dataset.class_names == ("3", "7")
    assert dataset.y.tolist() == [1, 0] * 5
    assert dataset.test_y.tolist() == [0, 1]
    assert (dataset.name, dataset.source[:14]) == ("npz:toy.npz", "own data, sha1")


def test_npz_with_strings_and_grey_images(tmp_path):
    names = np.array(["dog", "a cat"] * 5)
    dataset = load_npz(saved(tmp_path / "toy.npz", x=X[..., 0], y=names, x_test=X[:2, ..., 0], y_test=names[:2]))
    assert dataset.class_names == ("a cat", "dog")
    assert dataset.y.tolist() == [1, 0] * 5
    np.testing.assert_array_equal(dataset.x, X[..., :1])
    assert split(dataset, n_tasks=2).image_shape == (1, 4, 4)


def test_npz_without_test_images_holds_out_every_fifth_of_each_class(tmp_path):
    dataset = load_npz(saved(tmp_path / "toy.npz", x=X, y=Y))
    # class 7 has rows 0, 2, 4, 6, 8 and class 3 has rows 1, 3, 5, 7, 9: the fifth of each
    np.testing.assert_array_equal(dataset.test_x, X[[8, 9]])
    np.testing.assert_array_equal(dataset.x, X[:8])
    assert dataset.test_y.tolist() == [1, 0]
    assert "every 5th image of each class held out for test" in dataset.source
    empty = load_npz(saved(tmp_path / "toy.npz", x=X, y=Y, x_test=X[:0], y_test=Y[:0]), image_size=4)
    assert empty.source == dataset.source


@given(st.lists(st.integers(0, 3), min_size=40, max_size=80))
def test_held_out_is_a_fifth_of_each_class(labels):
    y = np.array(labels + [0, 1, 2, 3] * 5)
    held = held_out_rows("toy", y, ("a", "b", "c", "d"))
    np.testing.assert_array_equal(np.bincount(y[held], minlength=4), np.bincount(y, minlength=4) // 5)


def test_npz_folder_with_train_and_test(tmp_path):
    saved(tmp_path / "toy" / "train.npz", x=X, y=Y)
    with pytest.raises(DataError, match=r"test\.npz is not there; save it with numpy\.savez"):
        load_npz(tmp_path / "toy")
    saved(tmp_path / "toy" / "test.npz", x=X[:2], y=Y[:2])
    dataset = load_npz(tmp_path / "toy")
    assert (len(dataset.x), len(dataset.test_x)) == (10, 2)
    assert dataset.test_y.tolist() == [1, 0]


@pytest.mark.parametrize("channels", [1, 3])
def test_npz_image_size_resizes_both_parts(tmp_path, channels):
    x = np.repeat(np.arange(10, dtype=np.uint8)[:, None, None, None] * 20, channels, axis=3) + np.zeros(
        (1, 4, 6, 1), np.uint8
    )
    path = saved(tmp_path / "toy.npz", x=x, y=Y, x_test=x[:2, :3, :3], y_test=Y[:2])
    with pytest.raises(DataError, match=r"test images are .* all of one size; got \(2, 3, 3, \d\)"):
        load_npz(path)
    dataset = load_npz(path, image_size=5)
    assert (dataset.x.shape, dataset.test_x.shape) == ((10, 5, 5, channels), (2, 5, 5, channels))
    np.testing.assert_array_equal(dataset.x[:, 2, 2, 0], np.arange(10) * 20)
    with pytest.raises(ConfigError, match=r"image-size is in \[1, 1024\], got 0"):
        load_npz(path, image_size=0)


def test_the_source_of_two_arrays_differs_when_one_training_pixel_does(tmp_path):
    other = X.copy()
    other[0, 0, 0, 0] += 1
    sources = [load_npz(saved(tmp_path / "toy.npz", x=x, y=Y)).source for x in (X, other, X)]
    assert sources[0] == sources[2] != sources[1]


NAN = np.where(np.arange(10)[:, None, None, None] == 3, np.nan, X.astype(np.float32))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": NAN, "y": Y}, r"npz:toy\.npz: training images are uint8 from 0 to 255, got float32 with 48 NaN values"),
        ({"x": X / 255, "y": Y}, r"training images are uint8 from 0 to 255, got float64; convert them first"),
        ({"x": X, "y": Y / 2}, r"toy\.npz: y holds whole numbers or strings, got float64; convert the labels first"),
        ({"x": X, "y": Y, "x_test": X, "y_test": Y / 2}, r"y_test holds whole numbers or strings, got float64"),
        ({"x": X, "y": Y[:9]}, r"training labels are one whole number per image; got int64 \(9,\) for 10"),
        ({"x": X, "y": Y[:, None]}, r"training labels are one whole number per image; got int64 \(10, 1\) for 10"),
        ({"x": X[0, 0], "y": Y}, r"training images are \(n, height, width, 1 or 3\), all of one size; got \(4, 3\)"),
        ({"x": X[..., :2], "y": Y}, r"training images are \(n, height, width, 1 or 3\)"),
        ({"x": X, "y": np.array(3)}, r"training labels are one whole number per image; got int64 \(1,\) for 10"),
        (
            {"x": X, "y": Y, "x_test": X, "y_test": Y.astype(str)},
            r"one of y and y_test holds strings and the other num",
        ),
        ({"x": X}, r"toy\.npz has no array 'y', only x; it needs x, y"),
        ({"x": X, "y": Y, "x_test": X}, r"toy\.npz has only one of x_test and y_test; give both, or neither"),
        ({"x": X, "y": Y, "x_test": X, "y_test": Y + 2}, r"class '5' is in y_test but not in y; add training images"),
        ({"x": X, "y": Y, "x_test": X, "y_test": Y * 0 + 3}, r"class '7' has no test image; add some or leave"),
        ({"x": X[:7], "y": Y[:7]}, r"class '3' has 3 images, too few to hold out one in 5 for test; add images"),
        ({"x": X[:0], "y": Y[:0]}, r"toy\.npz has no class; it needs at least one image"),
        ({"x": X, "y": np.array([{}] * 10)}, r"cannot read .*toy\.npz \(Object arrays cannot be loaded.*plain arrays"),
    ],
)
def test_wrong_arrays_are_explained(tmp_path, arrays, message):
    path = saved(tmp_path / "toy.npz", **arrays)
    for image_size in (None, 4):
        with pytest.raises(DataError, match=message):
            load_npz(path, image_size)


def test_wrong_files_are_explained(tmp_path):
    with pytest.raises(
        DataError, match=r"toy\.npz is not there; save it with numpy\.savez\(path, x=\.\.\., y=\.\.\.\)"
    ):
        load_npz(tmp_path / "toy.npz")
    np.save(tmp_path / "toy.npy", X)
    with pytest.raises(DataError, match=r"toy\.npy is not a whole npz file"):
        load_npz(tmp_path / "toy.npy")


@pytest.fixture
def folder(tmp_path):
    """Two classes with two training images and one test image each."""
    for label, name in enumerate(("zebra", "ant")):
        for suffix in ("png", "PPM"):
            make_image(tmp_path / "train" / name / f"{suffix}.{suffix}", (label, 10, 20))
        make_image(tmp_path / "test" / name / "deep" / "down.bmp", (label, 30, 40))
    return tmp_path


def test_folder(folder):
    (folder / "train" / "readme.txt").write_text("not a class")
    (folder / "train" / "ant" / "notes.txt").write_text("not an image")
    (folder / "train" / ".cache").mkdir()
    (folder / "train" / "ant" / "._PNG.png").write_text("what a Mac leaves behind")
    dataset = load_folder(folder)
    assert dataset.class_names == ("ant", "zebra")
    assert dataset.y.tolist() == [0, 0, 1, 1]
    assert dataset.test_y.tolist() == [0, 1]
    assert dataset.x[:, 0, 0].tolist() == [[1, 10, 20], [1, 10, 20], [0, 10, 20], [0, 10, 20]]
    assert dataset.test_x[:, 7, 7].tolist() == [[1, 30, 40], [0, 30, 40]]
    assert dataset.name == f"folder:{folder.name}"


@pytest.mark.parametrize("suffix", ["png", "jpg", "jpeg", "bmp", "webp", "gif", "ppm", "JPG"])
def test_every_suffix_is_read(folder, suffix):
    make_image(folder / "train" / "ant" / f"new.{suffix}", (255, 255, 255))
    dataset = load_folder(folder)
    assert len(dataset.x) == 5
    assert (dataset.x[:3] == 255).all(axis=(1, 2, 3)).sum() == 1


def test_grey_and_transparent_images_become_rgb(folder):
    Image.new("L", (8, 8), 77).save(folder / "train" / "ant" / "a.png")
    Image.new("RGBA", (8, 8), (5, 6, 7, 0)).save(folder / "train" / "ant" / "b.png")
    assert sorted(load_folder(folder).x[:4, 0, 0].tolist())[1:] == [[1, 10, 20], [5, 6, 7], [77, 77, 77]]


def test_folder_with_val_and_folder_without_any_test_images(folder):
    (folder / "test").rename(folder / "val")
    assert load_folder(folder).test_y.tolist() == [0, 1]
    (folder / "val").rename(folder / "unused")
    with pytest.raises(DataError, match=r"class 'ant' has 2 images, too few to hold out one in 5 for test"):
        load_folder(folder)
    for name in ("ant", "zebra"):
        for i in range(3):
            make_image(folder / "train" / name / f"z{i}.png", (99, i, 0))
    dataset = load_folder(folder)
    assert (dataset.y.tolist(), dataset.test_y.tolist()) == ([0] * 4 + [1] * 4, [0, 1])
    assert dataset.test_x[:, 0, 0].tolist() == [[99, 2, 0], [99, 2, 0]]
    assert "every 5th image of each class held out for test" in dataset.source


def test_unequal_sizes_name_two_files_and_the_flag(folder):
    odd = make_image(folder / "test" / "zebra" / "wide.png", (9, 9, 9), size=(12, 8))
    first = folder / "train" / "ant" / "PPM.PPM"
    with pytest.raises(
        DataError, match=rf"differ in size: {first} is 8x8 and {odd} is 12x8; resize all with --image-size N"
    ):
        load_folder(folder)
    dataset = load_folder(folder, image_size=6)
    assert (dataset.x.shape, dataset.test_x.shape) == ((4, 6, 6, 3), (3, 6, 6, 3))
    assert dataset.test_x[2, 3, 3].tolist() == [9, 9, 9]
    with pytest.raises(ConfigError, match=r"image-size is in \[1, 1024\], got -1"):
        load_folder(folder, image_size=-1)


def test_unreadable_images_are_named(folder):
    bad = folder / "train" / "zebra" / "bad.png"
    bad.write_bytes(b"no image")
    with pytest.raises(
        DataError, match=rf"cannot read {bad} as an image \(UnidentifiedImageError\); replace it or delete it"
    ):
        load_folder(folder)
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(noise).save(bad)
    bad.write_bytes(bad.read_bytes()[:120])
    with pytest.raises(DataError, match=rf"cannot read {bad} as an image \(\w+\); replace it or delete it"):
        load_folder(folder)
    Image.fromarray(np.full((8, 8), 40_000, dtype=np.uint16)).save(bad)
    with pytest.raises(
        DataError, match=rf"{bad} has more than 8 bits per pixel, which would be cut off at 255; save it"
    ):
        load_folder(folder)


def test_wrong_folders_are_explained(folder, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(DataError, match=rf"{empty}/train is not there; put images in {empty}/train/<class>/"):
        load_folder(empty)
    (empty / "train").mkdir()
    with pytest.raises(DataError, match=rf"{empty}/train has no class; put images in {empty}/train/<class>/"):
        load_folder(empty)
    (folder / "train" / "bee").mkdir()
    with pytest.raises(DataError, match=r"train/bee has no image \(\.png, .*\); add some or delete the folder"):
        load_folder(folder)
    make_image(folder / "train" / "bee" / "a.png")
    with pytest.raises(DataError, match=r"class 'bee' has no test image; add some or leave the class out"):
        load_folder(folder)
    make_image(folder / "test" / "bee" / "a.png")
    make_image(folder / "test" / "yak" / "a.png")
    with pytest.raises(
        DataError, match=r"class 'yak' is in .*/test but not in .*/train; add training images or delete"
    ):
        load_folder(folder)
