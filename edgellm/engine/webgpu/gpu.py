"""A GPU as wgpu gives it: buffers, pipelines, submissions. All that goes wrong there is a DeviceFault."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.device import DeviceFault
from edgellm.engine.webgpu.adapters import FEATURES, Adapter, one_line, silence

_BINDING = re.compile(r"@binding\((\d+)\) var<storage, (read|read_write)>")
_STEP, _IN_FLIGHT = 8 << 20, 64 << 20
Buffer = Any
Grid = tuple[int | str, int | str, int | str]
"""Workgroups of a dispatch; a name stands for a number that depends on the batch."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Dispatch:
    """A pipeline with its buffers, and how many workgroups of it run."""

    pipeline: Any
    bindings: Any
    grid: Grid


@dataclass
class Counts:
    """What was done so far: dispatches, submissions, bytes to the GPU and back."""

    dispatches: int = 0
    submissions: int = 0
    sent: int = 0
    received: int = 0


class GPU:
    """An adapter in use; `masked` features are not made use of, and no binding is larger than `binding` bytes.

    `features` are those of FEATURES that shaders may use. Raises DeviceFault, as every method does.
    """

    def __init__(self, adapter: Adapter, masked: Sequence[str] = (), binding: int | None = None) -> None:
        self.name = adapter.name
        self.features = tuple(feature for feature in adapter.features if feature not in masked)
        self.counts = Counts()
        self._pipelines: dict[str, tuple[Any, Any]] = {}
        self._staging: Buffer | None = None
        with self._faults(), silence():
            limits = adapter.handle.limits
            names = ("max-storage-buffer-binding-size", "max-buffer-size", "max-compute-workgroup-storage-size")
            wanted = [theirs for theirs, ours in FEATURES.items() if ours in self.features]
            self._device = adapter.handle.request_device_sync(
                required_features=wanted, required_limits={name: limits[name] for name in names}
            )
        self._mark = self._device.create_buffer(size=8, usage="COPY_SRC")
        self.binding = min(limits[names[0]], limits[names[1]], binding or 1 << 62) & ~255

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except DeviceFault:
            raise
        except Exception as error:
            short = "OutOfMemory" in type(error).__name__
            raise DeviceFault(f"{self.name}: {one_line(error)}", out_of_memory=short) from error

    def buffer(self, nbytes: int, what: str) -> Buffer:
        """A buffer of zeros for shaders."""
        with self._faults():
            if nbytes > self.binding:
                raise DeviceFault(f"{self.name}: {what} of {nbytes >> 20} MiB does not fit a binding")
            usage = "STORAGE | COPY_DST | COPY_SRC"
            return self._device.create_buffer(size=max(16, nbytes + 3 & ~3), usage=usage, label=what)

    def write(self, buffer: Buffer, data: NDArray[Any], offset: int = 0) -> None:
        """Write contiguous data of a multiple of 4 bytes; it arrives before what is submitted afterwards."""
        with self._faults():
            self._device.queue.write_buffer(buffer, offset, data)
        self.counts.sent += data.nbytes

    def upload(self, buffer: Buffer, data: NDArray[np.uint8], progress: Callable[[int], None]) -> None:
        """Write data of any size step by step, so that little of it is in memory twice; `progress` gets the bytes."""
        waiting = 0
        for start in range(0, data.nbytes, _STEP):
            step = data[start : start + _STEP]
            self.write(buffer, step if step.nbytes % 4 == 0 else np.pad(step, (0, -step.nbytes % 4)), start)
            waiting += step.nbytes
            if waiting >= _IN_FLIGHT or start + _STEP >= data.nbytes:
                self.submit([])
                self.wait()
                waiting = 0
            progress(step.nbytes)

    def dispatch(self, source: str, buffers: Sequence[Buffer], grid: Grid) -> Dispatch:
        """A shader's pipeline, made once for each source, with buffers for its bindings 0, 1, ….

        Where the same buffer is bound twice, both must be read only.
        """
        with self._faults():
            if source not in self._pipelines:
                self._pipelines[source] = self._pipeline(source)
            pipeline, layout = self._pipelines[source]
            entries = [{"binding": i, "resource": {"buffer": buffer}} for i, buffer in enumerate(buffers)]
            return Dispatch(pipeline, self._device.create_bind_group(layout=layout, entries=entries), grid)

    def _pipeline(self, source: str) -> tuple[Any, Any]:
        kinds = {"read": "read-only-storage", "read_write": "storage"}
        entries = [
            {"binding": int(binding), "visibility": "COMPUTE", "buffer": {"type": kinds[access]}}
            for binding, access in _BINDING.findall(source)
        ]
        layout = self._device.create_bind_group_layout(entries=entries)
        whole = self._device.create_pipeline_layout(bind_group_layouts=[layout])
        module = self._device.create_shader_module(code=source)
        compute = {"module": module, "entry_point": "main"}
        return self._device.create_compute_pipeline(layout=whole, compute=compute), layout

    def submit(
        self,
        dispatches: Sequence[Dispatch],
        sizes: Mapping[str, int] | None = None,
        copies: Sequence[tuple[Buffer, int, Buffer, int, int]] = (),
    ) -> None:
        """Start dispatches, one after the other, then copies (source, offset, target, offset, bytes).

        `sizes` has what the names in grids stand for.
        """
        sizes = sizes or {}
        with self._faults():
            encoder = self._device.create_command_encoder()
            if dispatches:
                compute = encoder.begin_compute_pass()
                for each in dispatches:
                    grid = [sizes[n] if isinstance(n, str) else n for n in each.grid]
                    compute.set_pipeline(each.pipeline)
                    compute.set_bind_group(0, each.bindings)
                    compute.dispatch_workgroups(*grid)
                compute.end()
            for copy in copies:
                encoder.copy_buffer_to_buffer(*copy)
            self._device.queue.submit([encoder.finish()])
        self.counts.dispatches += len(dispatches)
        self.counts.submissions += 1

    def wait(self) -> None:
        """Wait until all that was submitted is done, by reading what comes after it."""
        # Not on_submitted_work_done_sync: it does not work in wgpu 0.32.
        self.submit([], copies=[(self._mark, 0, self.staging(8), 0, 8)])
        self.read(8)

    def staging(self, nbytes: int) -> Buffer:
        """The buffer that results are copied to, of at least so many bytes."""
        with self._faults():
            if self._staging is None or self._staging.size < nbytes:
                self._staging = self._device.create_buffer(size=nbytes + 3 & ~3, usage="MAP_READ | COPY_DST")
            return self._staging

    def read(self, nbytes: int) -> NDArray[np.float32]:
        """Wait for what was submitted; the first bytes of the staging buffer, as float32."""
        staging, self._staging = self._staging, None  # an interrupt leaves it half mapped: then it is not used again
        assert staging is not None
        with self._faults():
            staging.map_sync("READ_NOSYNC", 0, nbytes)
            values = np.frombuffer(staging.read_mapped(0, nbytes, copy=False), np.float32).copy()
            staging.unmap()
        self._staging = staging
        self.counts.received += nbytes
        return values

    def close(self) -> None:
        """Free all buffers."""
        self._pipelines.clear()
        self._staging = None
        self._device.destroy()
