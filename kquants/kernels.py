"""All kernels, by name: importing this module registers them. Only `kquants.compiler.compile` needs to."""

from kquants import bandwidth, encoders
from kquants.activations import elementwise
from kquants.attention import attention, pages
from kquants.compiler.decorators import KERNELS
from kquants.formats import rows
from kquants.products import floats, tiled
from kquants.team import jobs

__all__ = ["KERNELS", "attention", "bandwidth", "elementwise", "encoders", "floats", "jobs", "pages", "rows", "tiled"]
