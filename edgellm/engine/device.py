"""What the engine needs of a device: the CPU (`edgellm.engine.cpu`), a GPU (`edgellm.engine.webgpu`)."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.batch import Batch

Logits = NDArray[np.float32]


class DeviceFault(Exception):  # noqa: N818 (the engine goes on without the device)
    """A device cannot go on: it is not there, was lost, or has no memory. One line that says why.

    Where its memory is full, and something may fit all the same, `fewer` layers are to be tried.
    """

    def __init__(self, message: str, *, out_of_memory: bool = False) -> None:
        super().__init__(message)
        self.out_of_memory, self.fewer = out_of_memory, 0


@dataclass
class DeviceStats:
    """What a device did so far: `seconds` that it had hidden states, and what a GPU did in them.

    `sent` and `received` are bytes, `transfer_s` the seconds in which this machine copied them.
    """

    seconds: float = 0.0
    dispatches: int = 0
    submissions: int = 0
    sent: int = 0
    received: int = 0
    transfer_s: float = 0.0


class Device(Protocol):
    """Holds the tensors, scratch and KV pages of its blocks, and runs their part of the program.

    Blocks are numbered as in `edgellm.engine.placement`. `work` is what it did. All but `stop` and `clear` raise
    DeviceFault.
    """

    work: DeviceStats

    @property
    def name(self) -> str:
        """Its name, for people."""

    def run(self, blocks: range, batch: Batch, hidden: NDArray[np.float32]) -> Logits | None:
        """Compute consecutive blocks for the rows of a batch: float32 [rows, width], in place in `hidden`.

        Returns the logits, float32 [outputs, vocab], where the output head is among the blocks; the device changes
        them no more. Raises Stopped after `stop`; what is in the batch's own cells and in `hidden` is then undefined.
        """

    def ensure_pages(self, pages: int) -> None:
        """Have room for KV pages 0 … `pages` - 1, keeping what is in them. Raises EdgeLLMError without memory."""

    def copy_page(self, source: int, target: int) -> None:
        """Copy what is in one KV page to another."""

    def stop(self) -> None:
        """Stop what runs now, or next, within 100 ms; from any thread."""

    def clear(self) -> None:
        """Forget an earlier `stop`; not while a program runs."""

    def close(self) -> None:
        """Let go of all memory. Nothing may be running; only the first call does something."""
