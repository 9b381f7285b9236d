"""The engine: gradients, features and what a device needs for them; only it knows graphs, queues and kernels."""

from samc.engine.cpu import PRECISIONS
from samc.engine.engine import Engine, Held, descend
from samc.engine.flat import flat_gradient, flat_parameters, padded, trainable
from samc.engine.plain import gradient
from samc.models.classifier import Batch

__all__ = [
    "PRECISIONS",
    "Batch",
    "Engine",
    "Held",
    "descend",
    "flat_gradient",
    "flat_parameters",
    "gradient",
    "padded",
    "trainable",
]
