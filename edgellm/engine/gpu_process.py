"""The GPU in a child process, as the engine sees it (see `edgellm.engine.gpu_worker` for the other side).

GPU libraries end their process when a device is lost during a computation, and drivers may hang. In a child process
this leaves the engine intact: the CPU goes on, and the memory on the GPU is free again.
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
from edgellm.process.shared_memory import SharedMemory

CALL, DONE, RAISED = 0, 0, 1
"""A request is the name and arguments of a method; a reply is its result and the device's stats, or its exception."""

ToFault = Callable[[str, str], DeviceFault]
"""See `edgellm.engine.backends.GPUBackend.fault`."""


def packed(content: object) -> bytes:
    """A payload."""
    return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)


def unpacked(payload: bytes) -> Any:
    """The content of a payload, which only our own process at the other end of the pipe can have made."""
    return pickle.loads(payload)  # noqa: S301


class HiddenMemory:
    """The hidden states of up to `rows` rows in shared memory; both processes lay it out alike.

    Raises MemoryError if the system gives no memory for it.
    """

    def __init__(self, memory: SharedMemory, rows: int, width: int) -> None:
        try:
            self._bytes, self._width = memory.array(4 * rows * width), width
        except OSError as error:
            raise MemoryError(error.strerror) from None

    def hidden(self, rows: int) -> NDArray[np.float32]:
        """The hidden states of the first rows, float32 [rows, width]."""
        return self.floats(rows, self._width)

    def fits(self, logits: Logits) -> bool:
        """Whether logits fit in the memory of the hidden states, which the output head was the last to read."""
        return logits.nbytes <= self._bytes.nbytes

    def floats(self, rows: int, columns: int) -> NDArray[np.float32]:
        """The first bytes as float32 [rows, columns]."""
        return self._bytes[: 4 * rows * columns].view(np.float32).reshape(rows, columns)


class _GPUProcess(ChildProcess):
    name, stop_timeout_s, reply_timeout_s = "the GPU", 10.0, 60.0

    def __init__(self, to_fault: ToFault, memory: SharedMemory) -> None:
        self._to_fault = to_fault
        super().__init__("edgellm.engine.gpu_worker", memory.argument, inherited=memory.inherited)

    def ended_error(self, how: str) -> DeviceFault:
        """The fault, from what the GPU's library wrote before it ended the process, or from how the process ended."""
        return self._to_fault(self.name, f"{self.stderr_text()}\nits process {how}")


class DeviceProxy:
    """A `Device` whose blocks are on a GPU of a child process, after `plan_offload` and `upload`."""

    def __init__(self, to_fault: ToFault) -> None:
        self.stats, self._to_fault = DeviceStats(), to_fault
        try:
            self._memory = SharedMemory.create()
        except OSError as error:
            raise to_fault("the GPU", f"its process could not be started ({error.strerror})") from None
        self._child = _GPUProcess(to_fault, self._memory)
        self._sent: Batch | None = None
        self._rows = 0
        self._child_s = self._pipe_s = 0.0
        self.stop, self.clear = self._child.stop, self._child.clear_stop

    @property
    def name(self) -> str:
        """See `Device`."""
        return self._child.name

    def plan_offload(self, backend: str, task: OffloadTask) -> OffloadPlan | None:
        """See `edgellm.engine.backends.GPUBackend`. Raises DeviceFault, also if the file is gone."""
        plan: OffloadPlan | None = self._call("plan_offload", backend, task)
        self._rows = task.limits.rows
        if plan:
            self._child.name, self._child.reply_timeout_s = plan.name, plan.reply_timeout_s
            self._child.stop_timeout_s = plan.reply_timeout_s * _GPUProcess.stop_timeout_s / _GPUProcess.reply_timeout_s
        return plan

    def upload(self, progress: UploadProgress) -> None:
        """Upload the blocks of the plan. Raises DeviceFault."""
        self._call("upload", on_progress=lambda payload: progress(*unpacked(payload)))

    def run(self, blocks: range, batch: Batch, hidden: NDArray[np.float32]) -> Logits | None:
        """See `Device`. A batch is sent once, with its first blocks; hidden states and logits are in shared memory."""
        unsent, self._sent = None if self._sent is batch else batch, None
        try:
            shared = HiddenMemory(self._memory, self._rows, hidden.shape[1])
        except MemoryError as error:
            raise self._to_fault(self.name, f"no memory to share with its process ({error})") from None
        shared.hidden(batch.rows)[:] = hidden
        reply: Logits | tuple[int, int] | None = self._call("run", blocks, unsent, hidden.shape[1])
        self._sent = batch
        if isinstance(reply, tuple):
            return shared.floats(*reply).copy()
        if reply is None:
            hidden[:] = shared.hidden(batch.rows)
        return reply

    def ensure_pages(self, group: int, pages: int) -> None:
        """See `Device`."""
        self._call("ensure_pages", group, pages)

    def copy_page(self, group: int, source: int, target: int) -> None:
        """See `Device`."""
        self._call("copy_page", group, source, target)

    def close(self) -> None:
        """See `Device`."""
        self._child.close()
        self._memory.close()

    def _call(self, name: str, *arguments: Any, on_progress: OnProgress = lambda payload: None) -> Any:
        started = perf_counter()
        code, payload = self._child.call(CALL, packed((name, arguments)), on_progress)
        content = unpacked(payload)
        if code == RAISED:
            raise content
        value, stats = content
        # The child counts its own seconds, and our caller counts all of them: the difference is the transfer.
        self._pipe_s += perf_counter() - started - (stats.seconds - self._child_s)
        self._child_s = stats.seconds
        self.stats = replace(stats, seconds=self.stats.seconds, transfer_s=stats.transfer_s + self._pipe_s)
        return value
