"""The registry of backbones: networks that turn images into features, by name; heads are another part.

Features are a map (b, d, i, j), tokens (b, n, d) or a vector (b, d). Tokens come row by row, after
`num_prefix_tokens` others if the network has such an attribute.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor, nn

from samc.errors import ConfigError, UserError, one_line, unknown
from samc.extras import imported
from samc.models.mlp import MLP
from samc.models.resnet import ReducedResNet18
from samc.models.resnet18 import ResNet18
from samc.models.vit import VisionTransformer
from samc.models.weights import load_weights

ImageShape = tuple[int, int, int]
# channels, height, width

BACKBONES: dict[str, Callable[..., nn.Module]] = {
    "reduced-resnet18": lambda image_shape: ReducedResNet18(image_shape[0]),
    "resnet18": lambda image_shape: ResNet18(image_shape[0]),
    "mlp": MLP,
    "vit-tiny": VisionTransformer,
}
TIMM = "timm:"
NAMES = (*BACKBONES, "timm:NAME", "package.module:factory")


def build_backbone(name: str, image_shape: ImageShape, *, weights: str | Path | None = None) -> nn.Module:
    """The network of a name for images of a shape; its weights are drawn from torch's random state as it is."""
    if name in BACKBONES:
        backbone = BACKBONES[name](image_shape)
    elif name.startswith(TIMM):
        backbone = timm_backbone(name.removeprefix(TIMM), image_shape)
    elif ":" in name:
        backbone = factory_backbone(name, image_shape)
    else:
        raise unknown("backbone", name, NAMES)
    if weights is not None:
        load_weights(backbone, weights)
    return backbone


def describe_features(features: object) -> Literal["map", "tokens", "vector"]:
    """What a network's features are, by their dimensions."""
    if isinstance(features, Tensor) and features.is_floating_point():
        match features.dim():
            case 4:
                return "map"
            case 3:
                return "tokens"
            case 2:
                return "vector"
    got = f"{tuple(features.shape)} of {features.dtype}" if isinstance(features, Tensor) else type(features).__name__
    raise ConfigError(
        f"a network gives a map (b, d, i, j), tokens (b, n, d) or a vector (b, d); got {got}; "
        "wrap it in a module whose forward returns one of them"
    )


# -- timm


class TimmBackbone(nn.Module):
    """What comes before the pooling of one of timm's networks, or of any other with `forward_features`."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network: Any = network
        self.gives_nhwc = getattr(network, "output_fmt", "NCHW") == "NHWC"
        class_token = getattr(network, "cls_token", None)
        # not each of timm's networks with class tokens says how many
        self.num_prefix_tokens: int = getattr(
            network, "num_prefix_tokens", 0 if class_token is None else class_token.shape[1]
        )

    def forward(self, x: Float[Tensor, "b c h w"]) -> Any:
        features = self.network.forward_features(x)
        if not isinstance(features, Tensor):
            return features  # some give a list, which describe_features refuses
        if self.gives_nhwc and features.dim() == 4:
            return features.permute(0, 3, 1, 2)
        if features.dim() == 3 and features.shape[1] == self.num_prefix_tokens:
            return features.mean(1)  # class tokens alone: no grid is left
        return features


def timm_backbone(name: str, image_shape: ImageShape) -> nn.Module:
    """One of timm's networks by its name in timm, with weights that are drawn, not downloaded."""
    timm = imported("timm", "'samc[timm]'")
    if not name or set(name) & set(":/\\"):  # hf-hub:... would be fetched
        raise ConfigError(
            f"backbone 'timm:{name}' is not timm:NAME with a name from timm.list_models(), as timm:resnet18"
        )
    if not timm.is_model(name):
        close = get_close_matches(name, timm.list_models(), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ConfigError(f"unknown timm network {name!r}: {hint}timm.list_models() names them all")
    settings = {"pretrained": False, "num_classes": 0, "in_chans": image_shape[0]}
    try:
        try:
            network = timm.create_model(name, img_size=image_shape[1:], **settings)
        except TypeError as error:  # most convolutional networks take any size, and no such argument
            if "img_size" not in str(error):
                raise
            network = timm.create_model(name, **settings)
    except Exception as error:
        raise ConfigError(
            f"timm cannot build {name!r} for images of shape {image_shape}: {type(error).__name__}: {one_line(error)}; "
            "choose a network for images of this size"
        ) from None
    return TimmBackbone(network)


# -- a factory of the user's


def factory_backbone(name: str, image_shape: ImageShape) -> nn.Module:
    """What the factory of a module in the current directory or the environment returns."""
    module_name, _, factory_name = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), factory_name)):
        raise ConfigError(f"backbone {name!r} is not package.module:factory, as in mynetworks:small")
    with current_directory_first():
        factory = imported_factory(module_name, factory_name)
        try:
            backbone = factory(image_shape) if takes_argument(factory, name) else factory()
        except (Exception, SystemExit) as error:
            if isinstance(error, UserError):
                raise
            raise ConfigError(
                f"backbone {name} raised {type(error).__name__}: {one_line(error)}; mend the factory"
            ) from error
    if not isinstance(backbone, nn.Module):
        raise ConfigError(f"backbone {name} returned {type(backbone).__name__}; a factory returns a torch.nn.Module")
    return backbone


def imported_factory(module_name: str, factory_name: str) -> Callable[..., Any]:
    try:
        importlib.invalidate_caches()  # the file may have been written a moment ago
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module_name}.".startswith(f"{missing}."):
            raise ConfigError(
                f"no module {missing!r} in {Path.cwd()} or the environment; run from the folder that holds it, "
                "or install it"
            ) from None
        raise ConfigError(
            f"module {module_name!r} raised {type(error).__name__} when imported: {one_line(error)}; mend it"
        ) from error
    if not hasattr(module, factory_name):
        place = getattr(module, "__file__", None) or "the environment"
        raise ConfigError(f"module {module_name!r} from {place} has no {factory_name!r}; check the name")
    factory = getattr(module, factory_name)
    if not callable(factory):
        raise ConfigError(
            f"{module_name}:{factory_name} is of type {type(factory).__name__} and cannot be called; "
            "name a function or a class that makes a network"
        )
    return factory


def takes_argument(factory: Callable[..., Any], name: str) -> bool:
    """Whether a factory is called with the shape of an image, or without any argument."""
    try:
        signature = inspect.signature(factory)
    except ValueError:  # of what is written in C
        return True
    for arguments in ((None,), ()):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return bool(arguments)
    raise ConfigError(
        f"backbone {name} takes {signature}; a factory takes image_shape (channels, height, width), or nothing"
    )


@contextmanager
def current_directory_first() -> Iterator[None]:
    """Modules are looked for as `python -m` does; an installed command would not see the current directory."""
    directory = str(Path.cwd())
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        with suppress(ValueError):  # the module may have changed the path itself
            sys.path.remove(directory)
