"""GEM's cone, on the host or on the device."""

from samc.projection.cone import RIDGE, non_negative, products, project, solve_dual

__all__ = ["RIDGE", "non_negative", "products", "project", "solve_dual"]
