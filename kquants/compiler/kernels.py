"""All kernels, by name: importing this module registers them. Only `kquants.compiler.compile` needs to."""

from importlib import import_module

from kquants.compiler.decorators import KERNELS
from kquants.compiler.kernel_names import REGISTERED

__all__ = ["KERNELS"]

for _module in REGISTERED:
    import_module(_module)
