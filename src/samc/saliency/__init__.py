"""Saliency: a model, images and labels to maps of what mattered."""

from samc.saliency.grad_cam import Target, as_bytes, saliency_map

__all__ = ["Target", "as_bytes", "saliency_map"]
