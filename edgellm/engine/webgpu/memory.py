"""The free memory of a GPU, from its driver, as WebGPU does not tell it."""

import ctypes
import sys
from contextlib import suppress
from pathlib import Path

from edgellm.engine.webgpu.adapters import Adapter


class _Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_uint64), ("free", ctypes.c_uint64), ("used", ctypes.c_uint64))


def free_memory(adapter: Adapter) -> int | None:
    """Free bytes of the memory of an adapter; None if the driver does not tell them."""
    with suppress(OSError, AttributeError, ValueError):
        return _nvidia(adapter.name) or _amd(Path("/sys/class/drm"), adapter.name)
    return None


def _nvidia(name: str) -> int | None:
    """Free bytes from NVIDIA's management library, for the GPU of this name."""
    if "nvidia" not in name.casefold():
        return None
    nvml = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
    if nvml.nvmlInit_v2() != 0:
        return None
    try:
        count = ctypes.c_uint()
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for i in range(count.value):
            device, called, memory = ctypes.c_void_p(), ctypes.create_string_buffer(96), _Memory()
            nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(i), ctypes.byref(device))
            nvml.nvmlDeviceGetName(device, called, ctypes.c_uint(96))
            if called.value.decode(errors="replace") in name:
                return memory.free if nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == 0 else None
        return None
    finally:
        nvml.nvmlShutdown()


def _amd(folder: Path, name: str) -> int | None:
    """Free bytes from Linux, for the AMD GPU with the most memory."""
    if "amd" not in name.casefold() and "radeon" not in name.casefold():
        return None
    totals = {path.parent: int(path.read_text()) for path in folder.glob("card[0-9]*/device/mem_info_vram_total")}
    if not totals:
        return None
    device = max(totals, key=totals.__getitem__)  # integrated GPUs have little
    return totals[device] - int((device / "mem_info_vram_used").read_text())
