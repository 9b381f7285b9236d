"""A vision transformer without class token or classifier; ViT-Tiny where no other size is given."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from samc.errors import ConfigError

SMALL_IMAGE = 64
SMALL_PATCH = 4
PATCHES = range(16, 7, -1)
# of larger images: 16 is usual, and Mini-ImageNet's 84 pixels a side divide by 14


class Attention(nn.Module):
    """Self-attention of several heads."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        # (b, n, 3·d) -> three of (b, heads, n, d / heads)
        query, key, value = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.proj(mixed.transpose(1, 2).flatten(2))


class MLPBlock(nn.Module):
    """Two linear layers on each token by itself, four times as wide between them."""

    def __init__(self, width: int):
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    """Attention and an MLP, each normalised before and added to what came in."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = MLPBlock(width)

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbedding(nn.Module):
    """One token per patch, row by row."""

    def __init__(self, channels: int, width: int, patch: int):
        super().__init__()
        self.proj = nn.Conv2d(channels, width, patch, stride=patch)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b n d"]:
        return self.proj(x).flatten(2).transpose(1, 2)


class VisionTransformer(nn.Module):
    """Images of one size to tokens (b, n, d), one per patch in row-major order; layers are named as in timm.

    Without a class token every token has its place on the grid, and a head takes their mean.
    """

    num_prefix_tokens = 0

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        *,
        patch: int | None = None,
        width: int = 192,
        depth: int = 12,
        heads: int = 3,
    ):
        super().__init__()
        channels, height, wide = image_shape
        patch = usual_patch(height, wide) if patch is None else patch
        if height % patch or wide % patch:
            raise ConfigError(
                f"a patch of {patch} pixels does not divide images of {height}x{wide}; resize or pad them, or choose "
                "the patch in a factory of your own: samc.models.vit.VisionTransformer(image_shape, patch=...)"
            )
        if width % heads:
            raise ConfigError(f"a width of {width} does not divide among {heads} heads; the usual is 64 per head")
        self.image_shape = image_shape
        self.patch_embed = PatchEmbedding(channels, width, patch)
        self.pos_embed = nn.Parameter(torch.empty(1, (height // patch) * (wide // patch), width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b n d"]:
        if tuple(x.shape[1:]) != self.image_shape:
            raise ConfigError(
                f"this vision transformer was built for images of shape {self.image_shape}, got {tuple(x.shape[1:])}; "
                "build one for these"
            )
        return self.norm(self.blocks(self.patch_embed(x) + self.pos_embed))


def usual_patch(height: int, width: int) -> int:
    """4 pixels for small images, else 16 or the next smaller that divides both sides."""
    if max(height, width) <= SMALL_IMAGE:
        return SMALL_PATCH
    dividing = (patch for patch in PATCHES if height % patch == 0 and width % patch == 0)
    return next(dividing, PATCHES[0])
