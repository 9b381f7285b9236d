"""Triton kernels, imported only where there is a GPU, and what compiles and launches them."""
