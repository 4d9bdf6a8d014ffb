"""A GPU as wgpu gives it: buffers, pipelines, submissions.

What goes wrong there is a DeviceFault, but for two things that no process can survive on its own, and that are why this
one has a parent (see `edgellm.engine.gpu_process`): a submission or a wait that fails ends it, and one that hangs, hangs it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.device import DeviceFault, DeviceStats
from edgellm.engine.webgpu.adapters import Adapter
from edgellm.engine.webgpu.commands import NO_NUMBERS, Buffer, Commands, Copy, Dispatch, Grid, Numbers, Ready, encode
from edgellm.engine.webgpu.connection import Connection, largest_binding
from edgellm.engine.webgpu.faults import fault

_MOST_BINDING = 1 << 31
"""Bytes that shaders can count with 32 bits, with room to spare."""

_STEP, _IN_FLIGHT = 8 << 20, 64 << 20


class GPUContext:
    """An adapter in use; `masked` features are not made use of, and no binding is larger than `binding` bytes.

    `features` are those that shaders may use. Raises DeviceFault, as every method does.
    """

    def __init__(self, adapter: Adapter, masked: Sequence[str] = (), binding: int | None = None) -> None:
        self.name = adapter.name
        self.features = tuple(feature for feature in adapter.features if feature not in masked)
        self.work = DeviceStats()
        self._closed, self._on_the_way = False, 0
        self._buffers: list[Buffer] = []
        self._uniforms: dict[tuple[int, ...], Buffer] = {}
        self._staging: Buffer | None = None
        self._ready: Ready | None = None
        self.binding = min(largest_binding(adapter), binding or _MOST_BINDING) & ~255
        with self._faults():
            self._connection = Connection(adapter, self.features)
        self._device = self._connection.device
        self._mark = self._make(8, "COPY_SRC")

    def _make(self, nbytes: int, usage: str) -> Buffer:
        with self._faults():
            buffer = self._device.create_buffer(size=nbytes, usage=usage)
        self._buffers.append(buffer)
        return buffer

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """What wgpu says is a DeviceFault; a mistake of ours stays what it is."""
        from wgpu import GPUError, GPUPipelineError

        try:
            yield
        except (GPUError, GPUPipelineError, RuntimeError) as error:  # the last is what a promise is broken with
            raise fault(self.name, str(error)) from error

    @contextmanager
    def _transfer(self) -> Iterator[None]:
        started = perf_counter()
        yield
        self.work.transfer_s += perf_counter() - started

    def buffer(self, nbytes: int, what: str) -> Buffer:
        """A buffer of zeros for shaders, of whole vec4: what an array of these has no whole one of cannot be read."""
        if nbytes > self.binding:
            raise DeviceFault(f"{self.name}: {what} of {nbytes >> 20} MiB does not fit a binding")
        return self._make(max(16, nbytes + 15 & ~15), "STORAGE | COPY_DST | COPY_SRC")

    def free(self, buffer: Buffer) -> None:
        """Let go of a buffer; what was submitted still has it."""
        self._buffers.remove(buffer)
        buffer.destroy()

    def uniform(self, words: Sequence[int]) -> Buffer:
        """A buffer of uint32 that no shader changes, made once for the same words."""
        key = tuple(words)
        if key not in self._uniforms:
            buffer = self._make(4 * len(key), "UNIFORM | COPY_DST")
            self.write(buffer, np.array(key, np.uint32))
            self._uniforms[key] = buffer
        return self._uniforms[key]

    def write(self, buffer: Buffer, data: NDArray[Any], offset: int = 0) -> None:
        """Write contiguous data of a multiple of 4 bytes; it arrives before what is submitted afterwards."""
        with self._faults(), self._transfer():
            self._device.queue.write_buffer(buffer, offset, data)
        self.work.sent += data.nbytes

    def upload(self, buffer: Buffer, data: NDArray[np.uint8], progress: Callable[[int], None]) -> None:
        """Write data of any size step by step, so that little of it is in memory twice; `progress` gets the bytes."""
        for start in range(0, data.nbytes, _STEP):
            step = data[start : start + _STEP]
            self.write(buffer, step if step.nbytes % 4 == 0 else np.pad(step, (0, -step.nbytes % 4)), start)
            self._on_the_way += step.nbytes
            if self._on_the_way >= _IN_FLIGHT:
                self.wait()
                self._on_the_way = 0
            progress(step.nbytes)

    def dispatch(self, source: str, buffers: Sequence[Buffer], grid: Grid) -> Dispatch:
        """A shader's pipeline, made once for each source, with buffers for its bindings 0, 1, ….

        Where the same buffer is bound twice, both must be read only.
        """
        with self._faults():
            pipeline, layout = self._connection.pipeline(source)
            entries = [{"binding": i, "resource": {"buffer": buffer}} for i, buffer in enumerate(buffers)]
            return Dispatch(pipeline, self._device.create_bind_group(layout=layout, entries=entries), grid)

    def submit(
        self, dispatches: Sequence[Dispatch], numbers: Numbers = NO_NUMBERS, copies: Sequence[Copy] = ()
    ) -> None:
        """Start dispatches, one after the other, then copies.

        `numbers` has what the names in grids stand for; a dispatch of no workgroups is left out.
        """
        self._start(self._encoded(dispatches, numbers, copies))

    def fetch(
        self, dispatches: Sequence[Dispatch], numbers: Numbers, source: Buffer, nbytes: int, again: bool = False
    ) -> NDArray[np.float32]:
        """Run dispatches; what is in the first bytes of a buffer then, as float32.

        With `again` the same is expected to be asked for next, and is made ready while the GPU works: encoding the
        dispatches of 32 layers takes Python 3 ms.
        """
        target, ready = self.staging(nbytes), self._ready
        key = (*map(id, dispatches), *numbers.items(), id(source), id(target), nbytes)
        self._ready = None
        copies = [(source, 0, target, 0, nbytes)]
        commands = ready.commands if ready and ready.key == key else self._encoded(dispatches, numbers, copies)
        self._start(commands)
        if again:
            self._ready = Ready(key, (dispatches, copies), self._encoded(dispatches, numbers, copies))
        return self.read(nbytes)

    def _encoded(self, dispatches: Sequence[Dispatch], numbers: Numbers, copies: Sequence[Copy]) -> Commands:
        with self._faults():
            return encode(self._device, dispatches, numbers, copies)

    def _start(self, commands: Commands) -> None:
        with self._faults():
            self._device.queue.submit([commands.encoder.finish()])
        self.work.dispatches += commands.dispatches
        self.work.submissions += 1

    def wait(self) -> None:
        """Wait until all that was submitted is done, by reading what comes after it."""
        # Not on_submitted_work_done_sync: it does not work in wgpu 0.32.
        self.submit([], copies=[(self._mark, 0, self.staging(8), 0, 8)])
        self.read(8)

    def staging(self, nbytes: int) -> Buffer:
        """The buffer that results are copied to, of at least so many bytes."""
        if self._staging is None or self._staging.size < nbytes:
            self._staging = self._make(nbytes + 3 & ~3, "MAP_READ | COPY_DST")
        return self._staging

    def read(self, nbytes: int) -> NDArray[np.float32]:
        """Wait for what was submitted; the first bytes of the staging buffer, as float32."""
        staging, self._staging = self._staging, None  # an interrupt leaves it half mapped: then it is not used again
        assert staging is not None
        with self._faults():
            staging.map_sync("READ_NOSYNC", 0, nbytes)
            with self._transfer():
                values = np.frombuffer(staging.read_mapped(0, nbytes, copy=False), np.float32).copy()
                staging.unmap()
        self._staging = staging
        self.work.received += nbytes
        return values

    def close(self) -> None:
        """Free all memory. Nothing may be running; only the first call does something."""
        if not self._closed:
            self._closed = True
            for buffer in self._buffers:
                buffer.destroy()
            self._buffers.clear()
            self._uniforms.clear()
            self._staging = self._ready = None
            self._device.destroy()
