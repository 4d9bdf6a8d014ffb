"""The adapters of this machine, which are GPUs and software renderers, and the selection of one."""

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from edgellm.engine.device import DeviceFault
from edgellm.engine.webgpu.detection import is_installed
from edgellm.engine.webgpu.faults import one_line
from edgellm.fmt import printable
from edgellm.system.optional_packages import install_command

ADAPTER_KINDS = {
    "DiscreteGPU": "discrete GPU",
    "IntegratedGPU": "integrated GPU",
    "CPU": "software",
    "Unknown": "other",
}
"""The kinds of adapters, from the names of wgpu to ours."""

FEATURES = {"subgroup": "subgroups", "subgroups": "subgroups", "shader-f16": "f16"}
"""Features of adapters that the shaders use, from the names of wgpu to ours."""

PACKED_DOT = "packed dot"
"""Dot products of four int8. Every adapter computes them, but only those of Vulkan with one instruction."""


@dataclass(frozen=True)
class Adapter:
    """One adapter: its name, its kind (a value of ADAPTER_KINDS), and the graphics API that it is used through.

    `features` are values of FEATURES, and PACKED_DOT. `binding` is the number of bytes of a buffer that a shader can
    access.
    """

    name: str
    kind: str
    backend: str
    features: tuple[str, ...]
    binding: int
    wgpu_adapter: Any


def adapters() -> tuple[Adapter, ...]:
    """All adapters, real GPUs first. Raises DeviceFault where wgpu is missing or does not work."""
    if not is_installed():
        raise DeviceFault(f"wgpu is not installed; run: {install_command('wgpu')}")
    return _found()


@cache
def _found() -> tuple[Adapter, ...]:
    try:
        with silence():
            import wgpu
            from wgpu.backends.wgpu_native import extras

            logging.getLogger("wgpu").addHandler(logging.NullHandler())  # its messages are raised as errors, too
            logging.getLogger("wgpu").propagate = False
            extras.set_instance_extras(backends=["Vulkan", "Metal", "DX12"])  # OpenGL lists the same adapters again
            found = [_adapter(wgpu_adapter) for wgpu_adapter in wgpu.gpu.enumerate_adapters_sync()]
    except Exception as error:
        raise DeviceFault(f"wgpu does not work here ({one_line(str(error))}); install the driver of your GPU") from None
    order = list(ADAPTER_KINDS.values())
    return tuple(sorted(found, key=lambda adapter: order.index(adapter.kind)))


def _adapter(wgpu_adapter: Any) -> Adapter:
    info = wgpu_adapter.info
    has = tuple(ours for theirs, ours in FEATURES.items() if theirs in wgpu_adapter.features)
    has += (PACKED_DOT,) * (info["backend_type"] == "Vulkan")
    kind = ADAPTER_KINDS.get(info["adapter_type"], "other")
    binding = wgpu_adapter.limits["max-storage-buffer-binding-size"]
    return Adapter(printable(info["device"], 80), kind, info["backend_type"], has, binding, wgpu_adapter)


def select_adapter(gpu: str | None) -> Adapter:
    """The adapter with this index in `adapters`, or with this text in its name; for None the first one.

    Raises DeviceFault if there is none.
    """
    found = adapters()
    if not found:
        raise DeviceFault("no GPU was found; install its driver, or see what `edgellm devices` lists")
    if gpu is None:
        return found[0]
    if gpu.isascii() and gpu.isdigit() and len(gpu) < 4:
        matching = [adapter for i, adapter in enumerate(found) if i == int(gpu)]
    else:
        matching = [adapter for adapter in found if gpu.casefold() in adapter.name.casefold()]
    if not matching:
        raise DeviceFault(f"`edgellm devices` lists no GPU {printable(gpu, 80)}")
    return matching[0]


@contextmanager
def silence() -> Iterator[None]:
    """Keep drivers from writing to the terminal while they start, which would damage the screen."""
    quiet = {"MESA_LOG_FILE": os.devnull, "XDG_RUNTIME_DIR": tempfile.gettempdir()}
    added = [name for name in quiet if name not in os.environ]
    for name in added:
        os.environ[name] = quiet[name]
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
