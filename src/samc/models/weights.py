"""Weights for a backbone from a local file, safetensors or torch's own: all of them or none, and never any code."""

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from samc.errors import ConfigError, DataError, one_line
from samc.files import open_regular
from samc.tensor_files import MOST_BYTES, open_tensors

WRAPPED = ("state_dict", "model")
# under which checkpoints keep the state dict beside an optimiser's or a count of epochs
CLASSIFIERS = {"fc", "head", "heads", "head_dist", "classifier", "linear"}
# what torchvision, timm and the papers' code call the layers that a backbone is without
COUNTER = "num_batches_tracked"
# of batch norm; old checkpoints are without it, and torch loads them all the same
EXTRA_STATE = "_extra_state"
# what a module saves beyond its tensors, as the classes of its tasks: no weights
REMEDY = "give the path of a network's weights"
NAMED = 3
# how many of the weights that do not fit a message names


def load_weights(backbone: nn.Module, path: str | Path) -> tuple[str, ...]:
    """Fill a backbone from a file; returns the file's keys that were left out, those of a classifier above all.

    The file may come from a network around the backbone ("module.conv1.weight"), or the backbone may be such a
    network itself: the prefix under which most keys agree is taken off.
    """
    path = Path(path)
    stored = read_state_dict(path)
    before = backbone.state_dict()
    own = {key: value for key, value in before.items() if not key.endswith(EXTRA_STATE)}
    prefix, own_prefix = matching_prefixes(stored, own)

    found: dict[str, Tensor] = {}
    left_out, surplus = [], []
    for key, value in stored.items():
        target = own_prefix + key.removeprefix(prefix)
        if key.startswith(prefix) and target in own:
            found[target] = value
        elif key.endswith(EXTRA_STATE) or is_classifier(key, prefix):
            left_out.append(key)
        else:
            surplus.append(key)

    needed = [key for key in own if not key.endswith(COUNTER)]
    missing = [key for key in needed if key not in found]
    unlike = [difference(key, value, own[key]) for key, value in found.items() if not fits(value, own[key])]
    if missing or unlike or surplus:
        raise mismatch(path, backbone, len(needed), missing=missing, unlike=unlike, surplus=surplus)
    found = {key: value.to(own[key].dtype) for key, value in found.items()}
    invalid = [key for key, value in found.items() if not value.isfinite().all()]
    if invalid:
        raise DataError(f"{path} has infinite values or NaN in {enumerated(invalid)}; take an earlier checkpoint")

    saved = {key: value.clone() if isinstance(value, Tensor) else value for key, value in before.items()}
    try:
        backbone.load_state_dict({**before, **found})
    except Exception as error:  # a network's own way of loading may refuse what fits by name and shape
        backbone.load_state_dict(saved)
        raise ConfigError(f"{type(backbone).__name__} refuses the weights of {path}: {one_line(error)}") from None
    return tuple(left_out)


def read_state_dict(path: Path) -> dict[str, Any]:
    """The tensors by name, on the CPU."""
    if not path.is_file():  # an address, perhaps
        raise DataError(
            f"there is no file {path}; weights are read from a local file, safetensors or torch's (.pt, .pth), "
            "and nothing is downloaded"
        )
    content = read_safetensors(path) if path.suffix == ".safetensors" else read_torch(path)
    for name in WRAPPED:
        if isinstance(content, dict) and isinstance(content.get(name), dict):
            content = content[name]
            break
    if not is_state_dict(content):
        raise DataError(
            f"{path} holds no state dict (names and their tensors), nor one under {' or '.join(map(repr, WRAPPED))}; "
            "save one with torch.save(network.state_dict(), path)"
        )
    return content


def is_state_dict(content: Any) -> bool:
    return (
        isinstance(content, dict)
        and len(content) > 0
        and all(isinstance(key, str) for key in content)
        and all(isinstance(value, Tensor) or key.endswith(EXTRA_STATE) for key, value in content.items())
    )


def read_safetensors(path: Path, most_bytes: int = MOST_BYTES) -> Any:
    open_tensors(path, REMEDY, most_bytes).close()
    try:
        return load_file(path, device="cpu")
    except OSError as error:
        raise unreadable(path, error) from None
    except SafetensorError as error:
        raise DataError(f"{path} is no whole safetensors file ({one_line(error)}); copy or save it again") from None


def read_torch(path: Path) -> Any:
    check_archive(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a TorchScript archive torch warns before it refuses it
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise unreadable(path, error) from None
    except Exception:  # whatever a damaged archive or a pickle made with intent can bring about
        raise DataError(
            f"{path} is damaged, or holds more than tensors, and no code from a file is run; where you trust its "
            "source, load it yourself and save it with torch.save(network.state_dict(), path) or as safetensors"
        ) from None


def check_archive(path: Path) -> None:
    """Refuse what torch.save has not written: more bytes than any network has, or an archive that could burst."""
    with open_regular(path, REMEDY) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MOST_BYTES:
            raise DataError(f"{path} has {size:,} bytes, no file of its kind has more than {MOST_BYTES:,}; {REMEDY}")
        try:
            with ZipFile(file) as archive:
                packed = any(info.compress_type != ZIP_STORED for info in archive.infolist())
        except (BadZipFile, ValueError, OSError, EOFError, NotImplementedError):  # no archive, as torch wrote at first
            return
    if packed:
        raise DataError(f"{path} is compressed, which torch.save does not do; save it with torch.save again")


def unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"cannot read {path} ({error.strerror or one_line(error)}); check who may read it")


def matching_prefixes(stored: Iterable[str], own: Iterable[str]) -> tuple[str, str]:
    """The prefix to take off the file's keys, and the one of all the backbone's own, that make most of them agree."""
    stored, own = list(stored), set(own)
    file_prefixes = {prefix for key in stored for prefix in prefixes(key)}
    own_prefixes = [prefix for prefix in prefixes(min(own, default="")) if all(key.startswith(prefix) for key in own)]

    def agreement(pair: tuple[str, str]) -> tuple[int, int]:
        prefix, own_prefix = pair
        agreeing = sum(key.startswith(prefix) and own_prefix + key.removeprefix(prefix) in own for key in stored)
        return agreeing, -len(prefix) - len(own_prefix)

    pairs = [(prefix, own_prefix) for prefix in sorted(file_prefixes) for own_prefix in own_prefixes]
    return max(pairs, key=agreement, default=("", ""))


def prefixes(key: str) -> list[str]:
    """Of "a.b.c": nothing, "a." and "a.b."."""
    parts = key.split(".")
    return [".".join(parts[:length]) + "." if length else "" for length in range(len(parts))]


def is_classifier(key: str, prefix: str) -> bool:
    """Whether a key is a classifier's, beside the backbone or within the same wrapper."""
    shared = max((start for start in prefixes(prefix) if key.startswith(start)), key=len)
    return key.removeprefix(shared).split(".")[0] in CLASSIFIERS


def fits(value: Tensor, own: Tensor) -> bool:
    """Shape and kind; a weight of half precision fits one of single."""
    plain = value.layout == torch.strided and value.device.type == "cpu"
    return plain and value.shape == own.shape and value.is_floating_point() == own.is_floating_point()


def difference(key: str, value: Tensor, own: Tensor) -> str:
    """What a weight is in the file, and what the network needs."""
    if value.shape != own.shape:
        return f"{key}: {tuple(value.shape)} in the file, {tuple(own.shape)} in the network"
    if value.layout != own.layout:
        return f"{key}: {value.layout} in the file, {own.layout} in the network"
    return f"{key}: {value.dtype} in the file, {own.dtype} in the network"


def mismatch(
    path: Path, backbone: nn.Module, total: int, *, missing: list[str], unlike: list[str], surplus: list[str]
) -> ConfigError:
    counted = (
        (f"of {total} weights {len(missing)} missing", missing),
        (f"{len(unlike)} of another shape or type", unlike),
        (f"{len(surplus)} without a place in the network", surplus),
    )
    parts = [f"{title} ({enumerated(names)})" for title, names in counted if names]
    return ConfigError(
        f"{path} does not fit {type(backbone).__name__}: {', '.join(parts)}; "
        "give weights of this very network, for this size of image"
    )


def enumerated(names: list[str]) -> str:
    more = [f"and {len(names) - NAMED} more"] if len(names) > NAMED else []
    return ", ".join([*names[:NAMED], *more])
