"""Data sets of torchvision and of Hugging Face by name: against modules that stand in for theirs, and the real one."""

import sys
from types import ModuleType

import numpy as np
import pytest
from PIL import Image
from torch.utils.data import Dataset

import samc
from data_makers import make_image
from samc.errors import ConfigError, DataError
from samc.streams import open_stream
from samc.streams.fetch import fetch


class VisionDataset(Dataset):
    """What torchvision's have in common."""

    def __init__(self, root):
        self.root = root


class Grey(VisionDataset):
    """Such as MNIST: train=True or False, and a file that download=True would leave."""

    classes = ("0 - zero", "1 - one", "2 - two", "3 - three")

    def __init__(self, root, train=True, transform=None, download=False):
        super().__init__(root)
        if download:
            (self.place / "grey").touch()
        if not (self.place / "grey").exists():
            raise RuntimeError("Dataset not found. You can use download=True to download it")
        self.count = 12 if train else 8

    @property
    def place(self):
        from pathlib import Path

        return Path(self.root)

    def __len__(self):
        return self.count

    def __getitem__(self, place):
        return Image.fromarray(np.full((10, 8), 20 * place, np.uint8)), place % 4


class Coloured(VisionDataset):
    """Such as Flowers102: split="train" or "val", pictures of several sizes."""

    def __init__(self, root, split="train", transform=None):
        super().__init__(root)
        if split not in ("train", "val"):
            raise ValueError(f"Unknown value '{split}' for argument split. Valid values are {{'train', 'val'}}.")
        self.split = split

    def __len__(self):
        return 6

    def __getitem__(self, place):
        return Image.new("RGB", (9 + place, 12), (place, 100, 200)), 7 * (place % 3)


class Whole(Coloured):
    """Such as EuroSAT: one part only."""

    def __init__(self, root, transform=None):
        VisionDataset.__init__(self, root)

    def __len__(self):
        return 30


class Broken(VisionDataset):
    def __init__(self, root, train=True):
        raise OSError("no space left\non this device")


class Endless(Coloured):
    def __init__(self, root, split="cats"):
        raise ValueError(f"Unknown value {split!r} for argument split.")


@pytest.fixture
def torchvision(monkeypatch):
    package, datasets = ModuleType("torchvision"), ModuleType("torchvision.datasets")
    for kind in (VisionDataset, Grey, Coloured, Whole, Broken, Endless):
        setattr(datasets, kind.__name__, kind)
    package.datasets = datasets
    monkeypatch.setitem(sys.modules, "torchvision", package)


@pytest.mark.usefixtures("torchvision")
class TestTorchvision:
    def test_it_is_fetched_when_that_is_asked_and_learnt_by_the_command_line(self, tmp_path, command):
        run = ("run", "--model", "er", "--backbone", "mlp", "--dataset", "torchvision:Grey", "--n-tasks", 2)
        where = ("--data-dir", tmp_path / "data", "--out", tmp_path / "run")
        code, _, error = command(*run, *where)
        assert (code, error.count("\n")) == (2, 1)
        assert "run `samc data fetch torchvision:Grey`" in error
        code, out, error = command("data", "fetch", "torchvision:Grey", "--data-dir", tmp_path / "data")
        assert (code, out) == (0, f"torchvision:Grey: in {tmp_path / 'data' / 'torchvision'}\n"), error
        code, _, error = command(*run, *where)
        assert code == 0, error
        record = samc.RunRecord.load(tmp_path / "run" / "record.json")
        assert record.fingerprint["stream"] == "torchvision:Grey"
        assert record.fingerprint["image_shape"] == [1, 10, 8]
        assert record.fingerprint["class_order"] == [[0, 1], [2, 3]]

    def test_parts_are_train_and_test_and_classes_have_the_names_of_the_data_set(self, tmp_path):
        fetch("torchvision:Grey", tmp_path)
        stream = open_stream("torchvision:Grey", data_dir=tmp_path, n_tasks=2)
        assert stream.class_names == Grey.classes
        assert [(len(task.x), len(task.test_x)) for task in stream] == [(6, 4), (6, 4)]
        assert stream[0].x[:, 0, 0, 0].tolist() == [0, 20, 80, 100, 160, 180]

    def test_splits_by_name_and_labels_with_gaps_and_sizes_that_differ(self, tmp_path):
        with pytest.raises(DataError, match="differ in size"):
            open_stream("torchvision:Coloured", data_dir=tmp_path)
        stream = open_stream("torchvision:Coloured", data_dir=tmp_path, image_size=8)
        assert stream.image_shape == (3, 8, 8)
        assert stream.class_names == ("0", "7", "14")
        assert stream[0].y.tolist() == [0, 1, 2, 0, 1, 2]
        assert stream[0].test_x.shape == (6, 3, 8, 8)

    def test_without_a_part_to_test_on_every_fifth_image_is(self, tmp_path):
        stream = open_stream("torchvision:Whole", data_dir=tmp_path, image_size=8)
        assert (len(stream[0].y), len(stream[0].test_y)) == (24, 6)
        assert "every 5th image" in stream.source

    @pytest.mark.parametrize(
        ("name", "error", "message"),
        [
            ("Gray", ConfigError, "unknown data set of torchvision 'Gray': did you mean 'Grey'"),
            ("VisionDataset2", ConfigError, "did you mean 'VisionDataset'"),
            ("__name__", ConfigError, "unknown data set of torchvision"),
            ("Broken", DataError, r"cannot be made \(OSError: no space left on this device\)"),
            ("Endless", DataError, "has no split train or trainval"),
        ],
    )
    def test_what_cannot_be_made_is_one_line(self, tmp_path, name, error, message):
        with pytest.raises(error, match=message) as caught:
            open_stream(f"torchvision:{name}", data_dir=tmp_path)
        assert "\n" not in str(caught.value)


class ClassLabel:
    names = ("cat", "dog", "eel")


class Table:
    """Rows as Hugging Face's datasets give them: dicts of columns."""

    def __init__(self, rows, image="image", label="label"):
        self.rows, self.image, self.label = rows, image, label
        self.features = {image: object(), label: ClassLabel()}

    def __len__(self):
        return self.rows

    def __getitem__(self, place):
        return {self.image: Image.new("RGB", (8, 8), (place, 0, 0)), self.label: place % 3}


@pytest.fixture
def hub(monkeypatch):
    """A Hub of a few data sets; calls are noted."""
    found, calls = {}, []

    def load_dataset(name, config=None, cache_dir=None):
        calls.append((name, config, cache_dir))
        if name not in found:
            raise FileNotFoundError(f"Couldn't find {name!r}\non the Hub")
        return found[name]

    module = ModuleType("datasets")
    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    found["calls"] = calls
    return found


class TestHuggingFace:
    def test_splits_columns_and_names(self, hub, tmp_path):
        hub["owner/pets"] = {"train": Table(9, "img", "fine_label"), "validation": Table(6, "img", "fine_label")}
        stream = open_stream("hf:owner/pets:small", data_dir=tmp_path, n_tasks=3)
        assert hub["calls"] == [("owner/pets", "small", str(tmp_path / "hf"))]
        assert stream.class_names == ("cat", "dog", "eel")
        assert stream.name == "hf:owner/pets:small"
        assert [(task.x[:, 0, 0, 0].tolist(), len(task.test_x)) for task in stream] == [
            ([0, 3, 6], 2),
            ([1, 4, 7], 2),
            ([2, 5, 8], 2),
        ]

    def test_fetching_is_loading(self, hub, tmp_path, command):
        hub["pets"] = {"train": Table(30)}
        code, out, error = command("data", "fetch", "hf:pets", "--data-dir", tmp_path)
        assert (code, out) == (0, f"hf:pets: in {tmp_path / 'hf'}\n"), error

    def test_what_cannot_be_had_is_one_line(self, hub, tmp_path):
        hub["tests"] = {"test": Table(3)}
        for name, message in (
            ("nobody", r"hf:nobody cannot be made \(FileNotFoundError: Couldn't find 'nobody' on the Hub\)"),
            ("tests", "hf:tests has no split train or trainval, only test"),
        ):
            with pytest.raises(DataError, match=message):
                open_stream(f"hf:{name}", data_dir=tmp_path)

    def test_the_real_package_reads_a_folder(self, tmp_path):
        pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed: pip install datasets")
        for number in range(10):
            make_image(tmp_path / "pets" / "train" / ("cat" if number % 2 else "dog") / f"{number}.png", (number, 0, 0))
        stream = open_stream(f"hf:{tmp_path / 'pets'}", data_dir=tmp_path / "cache", n_tasks=2)
        assert stream.class_names == ("cat", "dog")
        assert stream[0].x.shape == (4, 3, 8, 8)
        assert sorted(stream[0].x[:, 0, 0, 0].tolist() + stream[0].test_x[:, 0, 0, 0].tolist()) == [1, 3, 5, 7, 9]


@pytest.mark.parametrize(("name", "package"), [("torchvision:MNIST", "torchvision"), ("hf:mnist", "datasets")])
def test_without_the_package_one_line_says_how_to_get_it(name, package, monkeypatch, tmp_path, command):
    monkeypatch.setitem(sys.modules, package, None)
    code, _, error = command("run", "--dataset", name, "--out", tmp_path / "run")
    assert (code, error) == (2, f"samc: {package} is not installed; pip install {package}\n")
    assert list(tmp_path.iterdir()) == []
