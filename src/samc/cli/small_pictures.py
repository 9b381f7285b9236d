"""Pictures in a terminal: two pixels to a character where it has colours, shades of grey where it has none."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image
from rich.text import Text

SIDE = 24
# columns of a picture, and twice its lines
SHADES = " ░▒▓█"


def pictures_in_text(pictures: Sequence[UInt8[np.ndarray, "h w c"]], width: int) -> Text:
    """As many of the pictures side by side as fit; each character is the upper half of one colour on another."""
    fitting = [reduced(picture) for picture in pictures[: max(1, (width + 1) // (SIDE + 1))]]
    text = Text(no_wrap=True)
    for line in range(0, SIDE, 2):
        for picture in fitting:
            for upper, lower in zip(picture[line], picture[line + 1], strict=True):
                text.append("▀", style=f"{as_colour(upper)} on {as_colour(lower)}")
            text.append(" ")
        text.append("\n")
    text.rstrip()
    return text


def reduced(picture: UInt8[np.ndarray, "h w c"]) -> UInt8[np.ndarray, "side side 3"]:
    image = Image.fromarray(picture[:, :, 0] if picture.shape[2] == 1 else picture).convert("RGB")
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BOX))


def as_colour(pixel: UInt8[np.ndarray, "3"]) -> str:
    return "#" + bytes(pixel.tolist()).hex()


def shaded(levels: Float[np.ndarray, "h w"]) -> list[str]:
    """A map from 0 to 1 as lines of shades, one per two rows."""
    image = Image.fromarray((levels * 255).round().astype(np.uint8)).resize((SIDE, SIDE // 2), Image.Resampling.BOX)
    places = (np.asarray(image).astype(int) * len(SHADES) // 256).tolist()
    return ["".join(SHADES[place] for place in row) for row in places]
