"""The codecs by name: what `--codec` may say, and what a memory file says of itself."""

import re

from samc.errors import ConfigError, unknown
from samc.memory.budget import Budget, raw_image_bytes
from samc.memory.codec import Codec, Grid, Raw, Shape
from samc.memory.gist import BLOCK, Focus, Gist
from samc.memory.masked import Bitmask, Cam, Coordinates, MaskedCodec
from samc.memory.pictures import Jpeg, PictureCodec, Thumbnail, WebP
from samc.memory.scaled import Crop, Resized, smaller

PICTURES: dict[str, type[PictureCodec]] = {"jpeg": Jpeg, "webp": WebP, "thumb": Thumbnail}
MASKED = ("coo", "bitmask", "cam")
FEW, MANY = 5, 20
# raw images per task, where auto changes from one codec to the next
TASKS_EXPECTED = 10
# where a budget is for all tasks together, and nobody knows how many will come
AUTO = "auto"
NAMES = (
    AUTO,
    "raw",
    "jpeg:Q",
    "webp:Q",
    "thumb:N",
    *(f"{name}:Q@N" for name in ("jpeg", "webp")),
    *MASKED,
    "bitmask+deflate",
    "cam+deflate",
    *(f"gist:{name}:Q+cam" for name in ("jpeg", "webp")),
    *(f"{how}:{name}:Q" for how in ("focus", "focus:N", "crop:N") for name in ("jpeg", "webp")),
)


def parse_codec(spec: str, image_shape: Shape, grid: Grid | None = None) -> Codec:
    """A codec from its name: raw, jpeg:20@16, coo, cam+deflate, gist:webp:5+cam, focus:jpeg:40, crop:24:jpeg:9.

    `grid` is (rows, columns) of the saliency maps that will come. Only `cam` stores maps and needs it; a codec's own
    `spec` carries it (cam:4x4+deflate), and can be parsed without.
    """
    if spec == "raw":
        return Raw(image_shape)
    if spec.startswith("focus:"):
        return focus_codec(spec, image_shape)
    if spec.startswith("gist:"):
        picture, plus, masked = spec.removeprefix("gist:").partition("+")
        if not plus:
            raise ConfigError(f"codec {spec!r} lacks what is kept above the gist; write {spec}+cam")
        return Gist(picture_codec(picture, image_shape), masked_codec(masked, image_shape, grid))
    if spec.startswith("crop:") or "@" in spec:
        return resized_codec(spec, image_shape)
    name = re.split("[:+]", spec)[0]
    if ":" in spec and name not in MASKED:
        return picture_codec(spec, image_shape)
    return masked_codec(spec, image_shape, grid)


def focus_codec(spec: str, image_shape: Shape) -> Focus:
    """focus:jpeg:20, or focus:2:jpeg:20@16 with blocks of 2 pixels instead of 4 under a picture of 16 a side."""
    block, picture = str(BLOCK), spec.removeprefix("focus:")
    if picture[:1].isdecimal():
        block, _, picture = picture.partition(":")
    if not re.fullmatch("[1-9][0-9]{0,3}", block):
        raise ConfigError(f"codec {spec!r} wants blocks of 1 to 9999 pixels a side, such as focus:2:jpeg:20")
    return Focus((resized_codec if "@" in picture else picture_codec)(picture, image_shape), int(block))


def resized_codec(spec: str, image_shape: Shape) -> Resized:
    """jpeg:20@16, the whole image at 16 pixels a side; or crop:24:jpeg:20, a window of 24."""
    window = re.fullmatch("crop:([1-9][0-9]{0,8}):([^@]*)", spec)
    whole = re.fullmatch("([^@]*)@([1-9][0-9]{0,8})", spec)
    if window:
        return Crop(spec, image_shape, picture_codec(window[2], smaller(image_shape, int(window[1]))))
    if whole and not spec.startswith("crop:"):
        return Resized(spec, image_shape, picture_codec(whole[1], smaller(image_shape, int(whole[2]))))
    raise ConfigError(f"codec {spec!r} wants the pixels of a side, such as jpeg:20@16 or crop:24:jpeg:20")


def codec_for(budget: Budget, image_shape: Shape, salient: bool) -> str:
    """The codec that `auto` stands for: small JPEGs, of half the size where a task has room for few raw images.

    Held-out images of Split CIFAR-100 chose size and quality up to ten raw images; jpeg:20 above was not searched
    with a head per task. With saliency, pictures of half the size are smooth where nothing is salient, which is level;
    larger ones are not, which was worse: both on test images (docs/memory.md).
    """
    share = budget.total if budget.per_task else budget.total // TASKS_EXPECTED
    raw_images = share / raw_image_bytes(image_shape, None, "values")
    if raw_images < FEW:
        return ("focus:2:" if salient else "") + f"jpeg:10@{max(1, max(image_shape[1:]) // 2)}"
    return "jpeg:10" if raw_images < MANY else "jpeg:20"


def picture_codec(spec: str, image_shape: Shape) -> PictureCodec:
    name, _, number = spec.partition(":")
    if name not in PICTURES:
        raise unknown("codec", spec, NAMES)
    if not re.fullmatch("[0-9]{1,9}", number):
        raise ConfigError(f"codec {name} wants a number after it, such as {name}:20; got {spec!r}")
    return PICTURES[name](image_shape, int(number))


def masked_codec(spec: str, image_shape: Shape, grid: Grid | None) -> MaskedCodec:
    before, plus, stage = spec.partition("+")
    name, colon, stated = before.partition(":")
    if name not in MASKED or (plus and stage != "deflate") or (colon and name != "cam"):
        raise unknown("codec", spec, NAMES)
    if name == "cam":
        return Cam(image_shape, cam_grid(spec, stated if colon else None, grid), deflate=bool(plus))
    return (Coordinates if name == "coo" else Bitmask)(image_shape, deflate=bool(plus))


def cam_grid(spec: str, stated: str | None, given: Grid | None) -> Grid:
    """The grid that the name states, or else the given one; where there are both they are the same."""
    if stated is None:
        if given is None:
            raise ConfigError("cam needs its map's grid, such as cam:4x4")
        return given
    numbers = re.fullmatch("([0-9]{1,9})x([0-9]{1,9})", stated)
    if numbers is None:
        raise ConfigError(f"the grid of cam is rows and columns, such as cam:4x4; got {spec!r}")
    grid = int(numbers[1]), int(numbers[2])
    if given is not None and grid != given:
        rows, columns = given
        raise ConfigError(f"codec {spec!r} differs from the saliency maps, which are {rows}x{columns}; write cam alone")
    return grid
