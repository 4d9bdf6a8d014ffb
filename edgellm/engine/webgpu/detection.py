"""Whether it is worth while to look for a GPU, found out in no time: most machines have none that `auto` would take."""

import platform
import sys
from importlib.util import find_spec
from pathlib import Path

from edgellm.engine.offload import OffloadRequest


def installed() -> bool:
    """Whether wgpu is there."""
    return find_spec("wgpu") is not None


def discrete_may_be_there(root: Path = Path("/")) -> bool:
    """Whether this machine may have a discrete GPU, told without wgpu: to start that takes most of a second.

    Macs of today have none. On Linux files tell; elsewhere nothing does that is as quick.
    """
    if sys.platform == "darwin":
        return platform.machine() != "arm64"
    if sys.platform != "linux":
        return True
    cards = [path.resolve() for path in root.glob("sys/class/drm/card*/device")]
    return not all(map(_integrated, cards)) or (root / "dev/nvidiactl").exists()


def _integrated(card: Path) -> bool:
    """Whether graphics are part of a CPU: Intel's are on the first PCI bus, AMD's have tables of their own format.

    Of `gpu_metrics` byte 2 is the format: 1 for cards (see Linux, `drivers/gpu/drm/amd/include/kgd_pp_interface.h`).
    """
    try:
        return card.name.startswith("0000:00:") or (card / "gpu_metrics").read_bytes()[2] != 1
    except (OSError, IndexError):
        return False


def may_have_gpu(offload: OffloadRequest) -> bool:
    """Whether there may be a GPU for what is asked."""
    if offload.layers == "auto" and offload.gpu is None:
        return installed() and discrete_may_be_there()
    return True
