"""The time that decoding a token takes with a placement, reckoned before anything runs, to compare placements.

The speeds are those of a laptop or desktop PC with a discrete GPU. They need not be right for a machine: they decide
only whether a run of blocks on the GPU pays between blocks that stay on the CPU: experts, and recurrent mixers.
"""

from edgellm.arch.description import Description
from edgellm.engine.offload import active_bytes
from edgellm.engine.placement import CPU, GPU, Placement, runs

CPU_BANDWIDTH, GPU_BANDWIDTH = 50e9, 300e9
"""Bytes of weights that each reads per second."""

CROSSING_S = 400e-6
"""Seconds of a hidden state on its way to the GPU and back, with the submission of the work there.

- measured on Zen 4 with llvmpipe, 2048 values: 390 to 460 µs
"""


def decode_seconds(model: Description, placement: Placement) -> float:
    """Seconds that a token takes at the start of a text: to read the active weights, and to go to the GPU and back."""
    seconds = CROSSING_S * sum(device == GPU for device, _ in runs(placement))
    for block, device in enumerate(placement):
        seconds += active_bytes(model, block) / (GPU_BANDWIDTH if device == GPU else CPU_BANDWIDTH)
    return seconds


def without_losses(model: Description, placement: Placement) -> Placement:
    """The placement with those runs of blocks on the CPU that save less time on the GPU than the way there takes."""
    found = list(placement)
    for device, run in runs(placement):
        saved = sum(active_bytes(model, block) for block in run) * (1 / CPU_BANDWIDTH - 1 / GPU_BANDWIDTH)
        if device == GPU and saved <= CROSSING_S:
            found[run.start : run.stop] = [CPU] * len(run)
    return tuple(found)
