"""Whether this machine may have a GPU, found out without wgpu: most have none that `auto` would use."""

import platform
import sys
from importlib.util import find_spec
from pathlib import Path

from edgellm.engine.offload import OffloadRequest


def is_installed() -> bool:
    """Whether wgpu is installed."""
    return find_spec("wgpu") is not None


def may_have_discrete_gpu(root: Path = Path("/")) -> bool:
    """Whether this machine may have a discrete GPU. Asking wgpu would take most of a second.

    Macs with Apple silicon have none. On Linux the files of drivers show it. On other systems the answer is True.
    """
    if sys.platform == "darwin":
        return platform.machine() != "arm64"
    if sys.platform != "linux":
        return True
    cards = [path.resolve() for path in root.glob("sys/class/drm/card*/device")]
    return not all(map(_is_integrated, cards)) or (root / "dev/nvidiactl").exists()


def _is_integrated(card: Path) -> bool:
    """Whether a GPU is part of a CPU. Intel's are on PCI bus 0; AMD's have another format of `gpu_metrics`.

    Byte 2 of `gpu_metrics` is the format: 1 for cards (see Linux, `drivers/gpu/drm/amd/include/kgd_pp_interface.h`).
    """
    try:
        return card.name.startswith("0000:00:") or (card / "gpu_metrics").read_bytes()[2] != 1
    except (OSError, IndexError):
        return False


def may_have_gpu(request: OffloadRequest) -> bool:
    """Whether this machine may have a GPU for a request."""
    if request.layers == "auto" and request.gpu is None:
        return is_installed() and may_have_discrete_gpu()
    return True
