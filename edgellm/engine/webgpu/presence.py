"""Whether it is worth while to look for a GPU, found out in no time: most machines have none that `auto` would take."""

import platform
import sys
from importlib.util import find_spec
from pathlib import Path

from edgellm.engine.offload import Offload


def installed() -> bool:
    """Whether wgpu is there."""
    return find_spec("wgpu") is not None


def discrete_may_be_there(root: Path = Path("/")) -> bool:
    """Whether this machine may have a discrete GPU, told without wgpu, whose import takes most of a second.

    Macs of today have none. On Linux integrated graphics of Intel's are on the first PCI bus, all others elsewhere.
    """
    if sys.platform == "darwin":
        return platform.machine() != "arm64"
    if sys.platform != "linux":
        return True
    cards = [path.resolve().name for path in root.glob("sys/class/drm/card*/device")]
    return any(not name.startswith("0000:00:") for name in cards) or (root / "dev/nvidiactl").exists()


def worth_looking(offload: Offload) -> bool:
    """Whether there may be a GPU for what is asked."""
    if offload.layers == "auto" and offload.gpu is None:
        return installed() and discrete_may_be_there()
    return True
