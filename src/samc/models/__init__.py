"""The two networks: the classifier that learns the tasks and the autoencoder that completes memories."""

from samc.models.autoencoder import InpaintingAutoencoder
from samc.models.resnet import ReducedResNet18

__all__ = ["InpaintingAutoencoder", "ReducedResNet18"]
