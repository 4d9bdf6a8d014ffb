"""All kernels, by name: importing this module registers them. Only `kquants.compile` needs to."""

from kquants import attention, bandwidth, elementwise, encoders, jobs, matmul, pages, rows, tiled
from kquants.decorators import KERNELS

__all__ = [
    "KERNELS",
    "attention",
    "bandwidth",
    "elementwise",
    "encoders",
    "jobs",
    "matmul",
    "pages",
    "rows",
    "tiled",
]
