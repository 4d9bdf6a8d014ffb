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

from edgellm.engine.backends import OffloadPlan
from edgellm.engine.batch import Batch
from edgellm.engine.device import DeviceFault, DeviceStats, Logits
from edgellm.engine.offload import OffloadTask, UploadProgress
from edgellm.process.child import ChildProcess, OnProgress

CALL, DONE, RAISED = 0, 0, 1
"""A request is a method's name and arguments; a reply its result, with the device's work, or what it raised."""

Fault = Callable[[str, str], DeviceFault]
"""See `edgellm.engine.backends.GPUBackend.fault`."""


def packed(content: object) -> bytes:
    """A payload."""
    return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)


def unpacked(payload: bytes) -> Any:
    """What is in a payload, which nobody but our own process at the other end of the pipe can have made."""
    return pickle.loads(payload)  # noqa: S301


class _Process(ChildProcess):
    name, stop_timeout_s, reply_timeout_s = "the GPU", 10.0, 60.0

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        super().__init__("edgellm.engine.gpu_worker")

    def ended_error(self, how: str) -> DeviceFault:
        """What the GPU's library said before it ended the process; if that says nothing, how the process ended."""
        return self._fault(self.name, f"{self.stderr_text()}\nits process {how}")


class DeviceProxy:
    """See `edgellm.engine.device.Device`: a child process has its blocks, once they were chosen and uploaded."""

    def __init__(self, fault: Fault) -> None:
        self.work = DeviceStats()
        self._child = _Process(fault)
        self._sent: Batch | None = None
        self._child_s = self._way_s = 0.0
        self.stop, self.clear = self._child.stop, self._child.clear_stop

    @property
    def name(self) -> str:
        """See `Device`."""
        return self._child.name

    def plan_offload(self, backend: str, task: OffloadTask) -> OffloadPlan | None:
        """See `edgellm.engine.backends.GPUBackend`. Raises DeviceFault, also if the file is gone."""
        plan: OffloadPlan | None = self._call("plan_offload", backend, task)
        if plan:
            self._child.name, self._child.reply_timeout_s = plan.name, plan.reply_timeout_s
            self._child.stop_timeout_s = plan.reply_timeout_s * _Process.stop_timeout_s / _Process.reply_timeout_s
        return plan

    def upload(self, uploading: UploadProgress) -> None:
        """Take over the blocks that were chosen. Raises DeviceFault."""
        self._call("upload", on_progress=lambda news: uploading(*unpacked(news)))

    def run(self, blocks: range, batch: Batch, hidden: NDArray[np.float32]) -> Logits | None:
        """See `Device`."""
        news, self._sent = None if self._sent is batch else batch, None
        logits: Logits | None
        logits, changed = self._call("run", blocks, news, hidden)
        self._sent = batch
        if changed is not None:
            hidden[:] = changed
        return logits

    def ensure_pages(self, pages: int) -> None:
        """See `Device`."""
        self._call("ensure_pages", pages)

    def copy_page(self, source: int, target: int) -> None:
        """See `Device`."""
        self._call("copy_page", source, target)

    def close(self) -> None:
        """See `Device`."""
        self._child.close()

    def _call(self, name: str, *arguments: Any, on_progress: OnProgress = lambda news: None) -> Any:
        started = perf_counter()
        code, payload = self._child.call(CALL, packed((name, arguments)), on_progress)
        found = unpacked(payload)
        if code == RAISED:
            raise found
        value, work = found
        # The child counts the seconds of its own, and whoever calls us those in all: the rest is the way between us.
        self._way_s += perf_counter() - started - (work.seconds - self._child_s)
        self._child_s = work.seconds
        self.work = replace(work, seconds=self.work.seconds, transfer_s=work.transfer_s + self._way_s)
        return value
