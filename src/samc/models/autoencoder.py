"""The inpainting autoencoder: three convolutions down, three up, a few thousand parameters."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from samc.models.start import seeded

WIDTHS = (8, 16, 32)
STRIDE = 2 ** len(WIDTHS)


class InpaintingAutoencoder(nn.Module):
    """For images of any size. As in the paper it produces the whole image, through a sigmoid.

    With residual=True it adds a correction to the image it is given; its last layer starts at zero, so that before its
    first step it returns that image unchanged.
    """

    def __init__(self, channels: int = 3, *, residual: bool = False, seed: int = 0):
        super().__init__()
        self.residual = residual
        with seeded(seed):
            down: list[nn.Module] = []
            for width_in, width in zip((channels, *WIDTHS), WIDTHS, strict=False):
                down += [nn.Conv2d(width_in, width, 4, 2, 1), nn.BatchNorm2d(width), nn.LeakyReLU(0.2)]
            up: list[nn.Module] = []
            for width_in, width in zip(WIDTHS[::-1], (*WIDTHS[-2::-1], channels), strict=True):
                up += [nn.ConvTranspose2d(width_in, width, 4, 2, 1), nn.ReLU()]
            self.encoder = nn.Sequential(*down)
            self.decoder = nn.Sequential(*up[:-1])
        if residual:
            last = self.decoder[-1]
            for parameter in last.parameters():
                nn.init.zeros_(parameter)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        height, width = x.shape[2:]
        if self.residual:
            return x + self.decoder(self.encode(x))[:, :, :height, :width]
        return decode(self.decoder, self.encode(x), height, width)

    def encode(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d i j"]:
        """The codes that the decoder starts from, at an eighth of the image's height and width."""
        height, width = x.shape[2:]
        # strides need a multiple of eight; edges are replicated so that no dark border is learnt
        return self.encoder(F.pad(x, (0, -width % STRIDE, 0, -height % STRIDE), mode="replicate"))


def decode(decoder: nn.Module, codes: Float[Tensor, "b d i j"], height: int, width: int) -> Float[Tensor, "b c h w"]:
    """The images, in [0, 1], that a decoder makes of codes; what padding had added is cut off."""
    return torch.sigmoid(decoder(codes)[:, :, :height, :width])


def code_grid(height: int, width: int) -> tuple[int, int]:
    """Height and width of an image's codes."""
    return -(-height // STRIDE), -(-width // STRIDE)
