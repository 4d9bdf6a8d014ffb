"""A GPU in a process of its own.

The libraries of GPUs end the process they are in when a device is lost while it computes, and drivers may hang. Here
that ends a child of ours: the CPU goes on, and what was held on the GPU is free again.
"""

import pickle
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.backends import Choice
from edgellm.engine.batch import Batch
from edgellm.engine.device import DeviceFault, Logits, Work
from edgellm.engine.offload import Opening, Uploading
from edgellm.process.child import Child, Heard

CALL, DONE, RAISED = 0, 0, 1
"""A request is a method's name and arguments; a reply its result, with the device's work, or what it raised."""

Fault = Callable[[str, str], DeviceFault]
"""See `edgellm.engine.backends.Kind.fault`."""


def packed(content: object) -> bytes:
    """A payload."""
    return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)


def unpacked(payload: bytes) -> Any:
    """What is in a payload, which nobody but our own process at the other end of the pipe can have made."""
    return pickle.loads(payload)  # noqa: S301


class _Process(Child):
    name, grace_s, patience_s = "the GPU", 10.0, 60.0

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        super().__init__("edgellm.engine.worker")

    def epitaph(self, how: str) -> DeviceFault:
        """What the GPU's library said before it ended the process; if that says nothing, how the process ended."""
        return self._fault(self.name, f"{self.said()}\nits process {how}")


class RemoteDevice:
    """See `edgellm.engine.device.Device`: a child process has its blocks, once they were chosen and uploaded."""

    def __init__(self, fault: Fault) -> None:
        self.work = Work()
        self._child = _Process(fault)
        self._sent: Batch | None = None
        self._child_s = self._way_s = 0.0
        self.stop, self.clear = self._child.stop, self._child.clear_stop

    @property
    def name(self) -> str:
        """See `Device`."""
        return self._child.name

    def choose(self, kind: str, opening: Opening) -> Choice | None:
        """See `edgellm.engine.backends.Kind`. Raises DeviceFault, also if the file is gone."""
        choice: Choice | None = self._call("choose", kind, opening)
        if choice:
            self._child.name, self._child.patience_s = choice.name, choice.patience_s
            self._child.grace_s = choice.patience_s * _Process.grace_s / _Process.patience_s
        return choice

    def upload(self, uploading: Uploading) -> None:
        """Take over the blocks that were chosen. Raises DeviceFault."""
        self._call("upload", heard=lambda news: uploading(*unpacked(news)))

    def run(self, blocks: range, batch: Batch, hidden: NDArray[np.float32]) -> Logits | None:
        """See `Device`."""
        news, self._sent = None if self._sent is batch else batch, None
        logits: Logits | None
        logits, changed = self._call("run", blocks, news, hidden)
        self._sent = batch
        if changed is not None:
            hidden[:] = changed
        return logits

    def hold(self, pages: int) -> None:
        """See `Device`."""
        self._call("hold", pages)

    def copy(self, source: int, target: int) -> None:
        """See `Device`."""
        self._call("copy", source, target)

    def close(self) -> None:
        """See `Device`."""
        self._child.close()

    def _call(self, name: str, *arguments: Any, heard: Heard = lambda news: None) -> Any:
        started = perf_counter()
        code, payload = self._child.ask(CALL, packed((name, arguments)), heard)
        found = unpacked(payload)
        if code == RAISED:
            raise found
        value, work = found
        # The child counts the seconds of its own, and whoever calls us those in all: the rest is the way between us.
        self._way_s += perf_counter() - started - (work.seconds - self._child_s)
        self._child_s = work.seconds
        self.work = replace(work, seconds=self.work.seconds, transfer_s=work.transfer_s + self._way_s)
        return value
