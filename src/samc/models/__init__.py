"""The networks: backbones and heads, the classifier made of them, and the autoencoder of images."""

from samc.models.autoencoder import InpaintingAutoencoder
from samc.models.classifier import Classifier, Features, in_mode, probe
from samc.models.energy import EnergyHeads
from samc.models.heads import Heads
from samc.models.resnet import ReducedResNet18

__all__ = [
    "Classifier",
    "EnergyHeads",
    "Features",
    "Heads",
    "InpaintingAutoencoder",
    "ReducedResNet18",
    "in_mode",
    "probe",
]
