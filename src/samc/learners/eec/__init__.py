"""EEC (Ayub and Wagner 2021): images are kept as encodings or centroids of them, and painted anew to be replayed."""

from samc.learners.eec.eec import EEC

__all__ = ["EEC"]
