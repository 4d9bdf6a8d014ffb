"""What goes wrong with wgpu, as a DeviceFault with one line for a person."""

from edgellm.engine.device import DeviceFault
from edgellm.fmt import printable


def fault(name: str, said: str) -> DeviceFault:
    """What happened to the GPU of this name, of which wgpu said this."""
    if "Not enough memory" in said or "OutOfMemory" in said:  # wgpu 0.32 raises no class of its own for it
        return DeviceFault(f"{name}: its memory is full", out_of_memory=True)
    if "device is lost" in said:
        return DeviceFault(f"{name}: the device was lost")
    return DeviceFault(f"{name}: {one_line(said)}")


def one_line(said: str) -> str:
    """The last line of a text, as those before it name calls; short, and harmless to a terminal."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return printable(lines[-1] if lines else "something went wrong", 200)
