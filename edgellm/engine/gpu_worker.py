"""The child process that has a GPU: `python -m edgellm.engine.gpu_worker` (see `edgellm.engine.gpu_process`)."""

import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter

from edgellm.arch import describe
from edgellm.engine.backends import OffloadPlan, load_backend
from edgellm.engine.batch import Batch
from edgellm.engine.device import Device, DeviceFault, DeviceStats, Logits
from edgellm.engine.gpu_process import DONE, RAISED, HiddenMemory, packed, unpacked
from edgellm.engine.offload import OffloadTask, UploadProgress, file_identity
from edgellm.engine.protocol import Stopped
from edgellm.errors import EdgeLLMError, ModelFileError
from edgellm.fmt import shown_path
from edgellm.gguf import GGUFFile, sigbus
from edgellm.process.serve import serve
from edgellm.process.shared_memory import SharedMemory


class GPUWorker:
    """Opens a device, then calls its methods; hidden states are in `memory`."""

    def __init__(self, memory: SharedMemory) -> None:
        self._memory, self._rows = memory, 0
        self._device: Device | None = None
        self._open: Callable[[UploadProgress], Device]
        self._check: Callable[[], None]
        self._batch: Batch | None = None
        self._stopped = False
        self._send_progress: Callable[[bytes], None] = lambda payload: None

    def answer(self, request: int, payload: bytes, send_progress: Callable[[bytes], None]) -> tuple[int, bytes]:
        """The reply to a call: DONE with the result, or RAISED with the exception."""
        name, arguments = unpacked(payload)
        self._send_progress = send_progress
        try:
            started = perf_counter()
            value = getattr(self, f"_{name}")(*arguments)
            stats = self._device.stats if self._device else DeviceStats()
            stats.seconds += perf_counter() - started
            return DONE, packed((value, stats))
        except (Stopped, EdgeLLMError, DeviceFault) as error:
            return RAISED, packed(error)
        except MemoryError:
            return RAISED, packed(DeviceFault("the process of the GPU got no memory from this machine"))
        except Exception:  # a bug
            return RAISED, packed(RuntimeError(traceback.format_exc()))

    def stop(self, stop: bool) -> None:
        """Stop the running call, or the next; False forgets an earlier stop. From any thread."""
        self._stopped = stop
        if self._device:
            (self._device.stop if stop else self._device.clear)()

    def _plan_offload(self, name: str, task: OffloadTask) -> OffloadPlan | None:
        sigbus.install()
        try:
            file = GGUFFile.open(task.path)
        except ModelFileError as error:
            raise DeviceFault(str(error)) from None
        if file_identity(file) != task.file_identity:
            raise DeviceFault(f"{shown_path(task.path)} is not the file any more that was opened")
        backend, model, self._rows = load_backend(name), describe(file), task.limits.rows
        plan = backend.plan_offload(model, task.limits, task.request)
        if plan:
            self._open, self._check = partial(backend.open_device, model, task.limits, plan), file.check
        return plan and replace(plan, adapter=None)

    def _upload(self) -> None:
        # The device calls this during long batches, too, so that it does not count as hung.
        def progress(done: int, total: int) -> None:
            if self._stopped:
                raise Stopped
            self._send_progress(packed((done, total)))

        self._device = self._open(progress)
        self._check()

    def _run(self, blocks: range, batch: Batch | None, width: int) -> Logits | tuple[int, ...] | None:
        """None where hidden states came of it, the shape of logits in shared memory, or logits too large for it."""
        self._batch = batch or self._batch
        assert self._device and self._batch, "a batch comes with its first blocks, after the upload"
        shared = HiddenMemory(self._memory, self._rows, width)
        logits = self._device.run(blocks, self._batch, shared.hidden(self._batch.rows))
        if logits is None or not shared.fits(logits):
            return logits
        shared.floats(*logits.shape)[:] = logits
        return logits.shape

    def _ensure_pages(self, group: int, pages: int) -> None:
        assert self._device, "the upload comes first"
        self._device.ensure_pages(group, pages)

    def _copy_page(self, group: int, source: int, target: int) -> None:
        assert self._device, "the upload comes first"
        self._device.copy_page(group, source, target)


if __name__ == "__main__":
    worker = GPUWorker(SharedMemory.attach(sys.argv[1]))
    serve(worker.answer, worker.stop)
