"""The codecs by name: what `--codec` may say, and what a memory's file says of itself."""

from samc.errors import ConfigError, unknown
from samc.memory.codec import Codec, Raw, Shape
from samc.memory.gist import Focus, Gist
from samc.memory.masked import Bitmask, Cam, Coordinates, Masked
from samc.memory.pictures import Jpeg, Picture, Thumbnail, WebP

MASKED: dict[str, type[Masked]] = {"coo": Coordinates, "bitmask": Bitmask, "cam": Cam}
PICTURES: dict[str, type[Picture]] = {"jpeg": Jpeg, "webp": WebP, "thumb": Thumbnail}
NAMES = (
    "raw",
    "jpeg:Q",
    "webp:Q",
    "thumb:N",
    *MASKED,
    *(f"{name}+deflate" for name in MASKED),
    *(f"gist:{name}:Q+cam" for name in ("jpeg", "webp")),
    *(f"focus:{name}:Q" for name in ("jpeg", "webp")),
)


def parse(spec: str, image_shape: Shape) -> Codec:
    """A codec from its name: raw, jpeg:20, coo, cam+deflate, gist:webp:5+cam."""
    if spec == "raw":
        return Raw(image_shape)
    if spec.startswith("focus:"):
        return Focus(picture(spec.removeprefix("focus:"), image_shape))
    if spec.startswith("gist:"):
        under, plus, over = spec.removeprefix("gist:").partition("+")
        if not plus:
            raise ConfigError(f"codec {spec!r} lacks what is kept above the gist; write {spec}+cam")
        return Gist(picture(under, image_shape), masked(over, image_shape))
    return picture(spec, image_shape) if ":" in spec else masked(spec, image_shape)


def picture(spec: str, image_shape: Shape) -> Picture:
    name, _, quality = spec.partition(":")
    if name not in PICTURES:
        raise unknown("codec", spec, NAMES)
    if not quality.isdecimal():
        raise ConfigError(f"codec {name} wants a number after it, such as {name}:20; got {spec!r}")
    return PICTURES[name](image_shape, int(quality))


def masked(spec: str, image_shape: Shape) -> Masked:
    name, plus, stage = spec.partition("+")
    if name not in MASKED or (plus and stage != "deflate"):
        raise unknown("codec", spec, NAMES)
    return MASKED[name](image_shape, deflate=bool(plus))
