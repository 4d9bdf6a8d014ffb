"""Errors of wgpu as DeviceFault."""

from edgellm.engine.device import DeviceFault
from edgellm.fmt import printable


def fault(name: str, said: str) -> DeviceFault:
    """The fault of the GPU of this name, from an error text of wgpu."""
    if "Not enough memory" in said or "OutOfMemory" in said:  # wgpu 0.32 raises no class of its own for it
        return DeviceFault(f"{name}: its memory is full", out_of_memory=True)
    if "device is lost" in said:
        return DeviceFault(f"{name}: the device was lost")
    return DeviceFault(f"{name}: {one_line(said)}")


def one_line(said: str) -> str:
    """The last line of an error text, printable and of up to 200 characters; the lines before it name calls."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return printable(lines[-1] if lines else "something went wrong", 200)
