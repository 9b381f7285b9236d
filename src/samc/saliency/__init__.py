"""Saliency: a model, images and labels to maps of what mattered."""

from samc.saliency.grad_cam import Target, as_bytes, byte_maps, saliency_map

__all__ = ["Target", "as_bytes", "byte_maps", "saliency_map"]
