"""The networks: the classifier that learns the tasks, its energy-based sibling, and the autoencoder of images."""

from samc.models.autoencoder import InpaintingAutoencoder
from samc.models.energy import EnergyNetwork
from samc.models.resnet import ReducedResNet18

__all__ = ["EnergyNetwork", "InpaintingAutoencoder", "ReducedResNet18"]
