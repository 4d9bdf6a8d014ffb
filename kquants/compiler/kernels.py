"""All kernels, by name: importing this module registers them. Only `kquants.compiler.compile` does so."""

from importlib import import_module

from kquants.compiler.decorators import KERNELS
from kquants.compiler.kernel_names import KERNELS_BY_MODULE

__all__ = ["KERNELS"]

for _module in KERNELS_BY_MODULE:
    import_module(_module)
