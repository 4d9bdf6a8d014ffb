"""The protocol of a device, which the CPU (`edgellm.engine.cpu`) and GPUs (`edgellm.engine.webgpu`) implement."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.batch import Batch

Logits = NDArray[np.float32]


class DeviceFault(Exception):  # noqa: N818 (the engine goes on without the device)
    """A device cannot go on: it is not there, was lost, or has no memory. The message is one line that says why.

    After an upload that its memory had no room for, `fewer` is the number of layers to try next, and `was_split` says
    whether the feed-forwards of some layers there were on the CPU.
    """

    def __init__(self, message: str, *, out_of_memory: bool = False) -> None:
        super().__init__(message)
        self.out_of_memory, self.fewer, self.was_split = out_of_memory, 0, False

    def with_fallback(self) -> str:
        """The message, and that the CPU computes instead: `until then` if the message ends in advice, after a `;`."""
        return f"{self}; until then the CPU computes" if "; " in str(self) else f"{self}: the CPU computes"


@dataclass
class DeviceStats:
    """What a device did so far. `seconds` is the time of its part of the batches; the other fields are those of a GPU.

    `sent` and `received` are bytes, `transfer_s` the seconds in which they were copied.
    """

    seconds: float = 0.0
    dispatches: int = 0
    submissions: int = 0
    sent: int = 0
    received: int = 0
    transfer_s: float = 0.0


class Device(Protocol):
    """Holds the tensors, scratch and KV pages of its blocks, and computes these blocks.

    Blocks are numbered as in `edgellm.engine.placement`. All methods but `stop` and `clear` raise DeviceFault.
    """

    stats: DeviceStats

    @property
    def name(self) -> str:
        """Its name, for users."""

    def run(self, blocks: range, batch: Batch, hidden: NDArray[np.float32]) -> Logits | None:
        """Compute consecutive blocks for the rows of a batch: float32 [rows, width], in place in `hidden`.

        Returns the logits, float32 [outputs, vocab], if the output head is among the blocks; the device does not change
        them later. Raises Stopped after `stop`; the batch's own cells and `hidden` are then undefined.
        """

    def ensure_pages(self, group: int, pages: int) -> None:
        """See `edgellm.engine.kv_pages.PageStore`."""

    def copy_page(self, group: int, source: int, target: int) -> None:
        """See `edgellm.engine.kv_pages.PageStore`."""

    def stop(self) -> None:
        """Stop the running `run`, or the next, within 100 ms; from any thread."""

    def clear(self) -> None:
        """Forget an earlier `stop`; not during `run`."""

    def close(self) -> None:
        """Free all memory. Nothing may be running. Further calls do nothing."""
