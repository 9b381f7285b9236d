"""Gradients as flat vectors: of the current batch, and of every past task's memory."""

from samc.gradients.engine import Engine
from samc.gradients.flat import Batch, descend, flat_gradient, flat_parameters, gradient

__all__ = ["Batch", "Engine", "descend", "flat_gradient", "flat_parameters", "gradient"]
