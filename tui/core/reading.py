"""What the model is doing at one moment, as the instruments show it."""

from dataclasses import dataclass
from enum import Enum

from edgellm.stats import Live


class Phase(Enum):
    """What the worker does; the values are what the status line says."""

    CLOSED = "no model"
    LOADING = "loading"
    READY = "ready"
    PREFILL = "reading"
    DECODE = "writing"


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the worker. Figures of a reply are those of its session (`live`), kept until the next one begins.

    `progress` says what is being loaded or compiled. `context` is the most tokens that a conversation may have,
    `gpu_blocks` of `blocks` are computed by a GPU.
    """

    phase: Phase = Phase.CLOSED
    model: str = ""
    progress: str = ""
    live: Live | None = None
    context: int = 0
    threads: int = 0
    blocks: int = 0
    gpu_blocks: int = 0
