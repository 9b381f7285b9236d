"""Data sets that other packages know: `torchvision:NAME`, and `hf:NAME` of Hugging Face's datasets."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from samc.errors import DataError, one_line, unknown
from samc.extras import imported
from samc.streams.base import Dataset
from samc.streams.custom import from_datasets
from samc.streams.samples import LABEL_KEYS

TRAIN_SPLITS, TEST_SPLITS = ("train", "trainval"), ("test", "val", "valid", "validation")
# as packages call them; the first that there is


class Parts(NamedTuple):
    """Datasets to learn from and to test on, and the names of the classes; the last two where they are known."""

    train: Any
    test: Any = None
    class_names: Sequence[str] | None = None


def is_packaged(name: str) -> bool:
    """Whether a name is one of another package's data sets."""
    return name.startswith(tuple(PACKAGES))


def load_packaged(name: str, data_dir: Path, image_size: int | None) -> Dataset:
    """A data set of another package, read into memory; without a part to test on, every fifth image is one."""
    train, test, class_names = parts_of(name, data_dir)
    return from_datasets(name, train, test, image_size=image_size, class_names=class_names)


def parts_of(name: str, data_dir: Path, download: bool = False) -> Parts:
    """The same as the package has it; nothing is read yet. What is not there is downloaded if that is asked."""
    prefix, _, rest = name.partition(":")
    return PACKAGES[f"{prefix}:"](rest, data_dir / prefix, download)


def torchvision_parts(name: str, folder: Path, download: bool) -> Parts:
    """One of torchvision's data sets of labelled images."""
    known = imported("torchvision", "torchvision").datasets
    kind = getattr(known, name, None)
    if not inspect.isclass(kind) or not issubclass(kind, known.VisionDataset):
        names = [other for other in dir(known) if inspect.isclass(getattr(known, other)) and not other.startswith("_")]
        raise unknown("data set of torchvision", name, names)
    if download:
        folder.mkdir(parents=True, exist_ok=True)
    arguments = inspect.signature(kind).parameters
    given = {"root": str(folder), **({"download": download} if "download" in arguments else {})}
    if "train" in arguments:
        return Parts(*(made(kind, name, given | {"train": train}) for train in (True, False)))
    if "split" in arguments:
        return Parts(*(first_split(kind, name, given, splits) for splits in (TRAIN_SPLITS, TEST_SPLITS)))
    return Parts(made(kind, name, given))


def first_split(kind: Callable[..., Any], name: str, given: dict[str, Any], splits: tuple[str, ...]) -> Any:
    """The first of some splits that the data set has."""
    for split in splits:
        try:
            return made(kind, name, given | {"split": split})
        except UnknownSplitError:
            continue
    raise DataError(f"torchvision:{name} has no split {' or '.join(splits)}; make it in Python: samc.streams.stream_of")


class UnknownSplitError(DataError):
    """A split that a data set does not have."""


def made(kind: Callable[..., Any], name: str, arguments: dict[str, Any]) -> Any:
    try:
        return kind(**arguments)
    except ValueError as error:
        if "split" in arguments and "split" in str(error):
            raise UnknownSplitError(str(error)) from None
        raise cannot(f"torchvision:{name}", error) from None
    except RuntimeError as error:
        if "download" not in str(error):
            raise cannot(f"torchvision:{name}", error) from None
        remedy = f"run `samc data fetch torchvision:{name}`"
        raise DataError(f"torchvision:{name} is not in {arguments['root']}; {remedy}") from None
    except Exception as error:  # each of them fails in its own way: a missing package, a broken download
        raise cannot(f"torchvision:{name}", error) from None


def hf_parts(name: str, folder: Path, download: bool) -> Parts:
    """A data set of the Hugging Face Hub, or of a folder, as `datasets.load_dataset` knows it: NAME, or NAME:CONFIG.

    What is not there is downloaded whether that is asked or not, as that package does. No code of its authors' is run.
    """
    datasets = imported("datasets", "datasets")
    repository, _, config = name.partition(":")
    try:
        found = datasets.load_dataset(repository, config or None, cache_dir=str(folder))
    except Exception as error:  # of the network, of the Hub, of a config that is none
        raise cannot(f"hf:{name}", error) from None
    parts = [next((found[split] for split in splits if split in found), None) for splits in (TRAIN_SPLITS, TEST_SPLITS)]
    if parts[0] is None:
        raise DataError(f"hf:{name} has no split {' or '.join(TRAIN_SPLITS)}, only {', '.join(found)}; choose another")
    return Parts(parts[0], parts[1], names_of(parts[0]))


def names_of(dataset: Any) -> Sequence[str] | None:
    """The names of the classes, where the column of labels has some."""
    features = getattr(dataset, "features", None) or {}
    label = next((features[key] for key in LABEL_KEYS if key in features), None)
    return getattr(label, "names", None)


def cannot(name: str, error: Exception) -> DataError:
    why = f"{type(error).__name__}: {one_line(error)}"
    return DataError(f"{name} cannot be made ({why}); check its name, or fetch it again")


PACKAGES: dict[str, Callable[[str, Path, bool], Parts]] = {"torchvision:": torchvision_parts, "hf:": hf_parts}
