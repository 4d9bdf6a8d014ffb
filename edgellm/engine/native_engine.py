"""Our engine: batches of rows in, logits out."""

import warnings
from collections.abc import Sequence as Ids
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.arch import describe
from edgellm.arch.description import Description
from edgellm.engine.budget import NO_LIMIT, KVBudget
from edgellm.engine.device import Device, DeviceFault, DeviceStats
from edgellm.engine.kv_pages import PagedSequence, PagePool
from edgellm.engine.model_runner import ModelRunner
from edgellm.engine.offload import NO_OFFLOAD, BatchLimits, OffloadRequest, OffloadTask, UploadProgress, device_figures
from edgellm.engine.open_gpu import open_gpu
from edgellm.engine.placement import Placement, fewer_layers, on_cpu
from edgellm.engine.program import Program, build
from edgellm.engine.protocol import Segment, check_batch
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, OptionError
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile
from edgellm.system.fork import ForkGuard
from kquants.jit import Progress
from kquants.layout import MOST_ROWS

MOST_ACTIVATIONS, LEAST_ROWS = 48 << 20, 16
"""Bytes that activations may take, with fewer rows for very wide models; but never fewer rows than this."""


def context(file: GGUFFile, model: Description, ctx: int | None) -> int:
    """The most tokens of a sequence: `ctx`, or as many as the model can. Raises OptionError for more than that."""
    if ctx is not None and ctx > model.context_length:
        most, trained = model.context_length, file.get_int(f"{file.architecture}.context_length", None)
        windowed = f"sees a window of {most} tokens at a time, and edgellm computes no longer context for it"
        why = f"was made for up to {most} tokens" if most == trained else windowed
        raise OptionError(f"option ctx cannot be {ctx}: {printable(file.path.name)} {why}")
    return ctx or model.context_length


def batch_rows(program: Program, ctx: int) -> int:
    """Rows of the largest batch."""
    return min(MOST_ROWS, ctx, max(LEAST_ROWS, MOST_ACTIVATIONS // program.row_bytes))


def _notice(line: str) -> None:
    warnings.warn(line, EdgeLLMWarning, stacklevel=2)


class NativeEngine:
    """A model on this machine. Not for several threads at once; only `stop` may be called from any.

    See `edgellm.engine.protocol.Engine`; here the logits do not depend on how tokens are split over batches, while the
    CPU computes alone. Where a GPU cannot go on the CPU does, with the tokens that the sequences hold.
    """

    def __init__(
        self,
        file: GGUFFile,
        *,
        threads: int,
        ctx: int | None,
        kv_type: str,
        cache: Path,
        budget: KVBudget = NO_LIMIT,
        progress: Progress | None = None,
        offload: OffloadRequest = NO_OFFLOAD,
        uploading: UploadProgress | None = None,
    ) -> None:
        """Describe, check and make ready the model of an open file; its tensors stay in the map.

        Raises UnsupportedModelError, ModelFileError, OptionError (a `ctx` above the model's) and EdgeLLMError, also
        where a GPU must, but cannot, be used. Where it need not, a warning tells.
        """
        model = self._model = describe(file)
        self.ctx = context(file, model, ctx)
        self.vocab = model.vocab
        self.max_rows = batch_rows(build(model, kv_type), self.ctx)
        self._options: dict[str, Any] = {"kv_type": kv_type, "ctx": self.ctx, "rows": self.max_rows, "threads": threads}
        self._options |= {"cache": cache, "progress": progress, "check": file.check, "budget": budget}
        self._task = OffloadTask.of(file, BatchLimits(self.max_rows, self.ctx, kv_type), offload)
        self._weights = sum(tensor.nbytes for tensor in file.tensors.values())
        self._pools: list[PagePool] = []
        self._closed = self._stopping = False
        self._origin = ForkGuard()
        self._run_on(*self._open_gpu(offload.layers, uploading))

    def _open_gpu(self, layers: int | str, uploading: UploadProgress | None = None) -> tuple[Placement, Device | None]:
        """The placement of all blocks, and the GPU if it has some: those of the last `layers`, or fewer if need be."""
        request = replace(self._task.request, layers=layers)
        try:
            opened = open_gpu(replace(self._task, request=request), uploading or (lambda done, total: None))
        except DeviceFault as fault:
            self._complain(fault, fault.fewer)
            return self._open_gpu(fault.fewer, uploading)
        if not opened:
            return on_cpu(len(self._model.layers)), None
        device, plan = opened
        for note in plan.notes:
            _notice(note)
        return plan.placement, device

    def _run_on(self, placement: Placement, gpu: Device | None) -> None:
        try:
            self._runner = ModelRunner(self._model, placement, gpu, **self._options)
        except BaseException:
            if gpu:
                gpu.close()
            raise
        self._pools.append(self._runner.pool)
        self._figures = device_figures(self._model, placement, self._weights, gpu.name if gpu else None)
        if self._stopping:
            self.stop()

    def _complain(self, fault: DeviceFault, fewer: int) -> None:
        """Tell what is done about it: fewer layers on the GPU are tried, or none."""
        if self._task.request.strict:
            raise EdgeLLMError(f"{fault}; without --gpu-strict the CPU would compute")
        _notice(f"{fault}: {f'trying fewer layers ({fewer})' if fewer else 'the CPU computes'}")

    @property
    def threads(self) -> int:
        """Threads that compute."""
        return self._runner.cpu.threads.count

    @property
    def batch_invariant(self) -> bool:
        """The CPU's rows are; a GPU's sums go in another order where there are more of them."""
        return len(self.devices) == 1

    @property
    def devices(self) -> list[dict[str, Any]]:
        """What runs where: name, blocks (a mixer and a feed-forward a layer, and the head), bytes of weights."""
        return self._figures

    @property
    def work(self) -> list[DeviceStats]:
        """What each of `devices` did since it was made ready."""
        return [replace(device.work) for device in self._runner.devices]

    def new_sequence(self) -> PagedSequence:
        """An empty sequence."""
        return PagedSequence(self._runner.pool)

    def forward(self, segments: Ids[Segment[PagedSequence]]) -> NDArray[np.float32]:
        """Compute up to `max_rows` rows, of different sequences; return float32 [wanted rows, vocab].

        Each sequence then holds its new tokens. Raises Stopped, ContextOverflowError, and EdgeLLMError for token
        ids that the model does not have, or if its file was cut short; in each case the sequences hold what they held
        before.
        """
        self._origin.check("the engine")
        if self._closed:
            raise EdgeLLMError("the engine was closed; open the model again")
        self._runner.cpu.threads.settle()  # before anything that an interrupted run may still use is touched
        check_batch(self, segments)
        if not all(any(segment.sequence.belongs_to(pool) for pool in self._pools) for segment in segments):
            raise EdgeLLMError("a sequence belongs to the engine that made it")
        while True:
            try:
                return self._compute(segments)
            except DeviceFault as fault:
                self._fall_back(fault)

    def _fall_back(self, fault: DeviceFault) -> None:
        """Go on with fewer layers on the GPU, if its memory is full, or without it."""
        broken = self._runner  # in use until there is another: an interrupt, or too little memory, changes nothing
        fewer = fewer_layers(broken.placement) if fault.out_of_memory else 0
        self._complain(fault, fewer)
        if fewer and broken.gpu:
            broken.gpu.close()
        self._run_on(*self._open_gpu(fewer))
        broken.close()

    def _compute(self, segments: Ids[Segment[PagedSequence]]) -> NDArray[np.float32]:
        for segment in segments:
            if not segment.sequence.belongs_to(self._runner.pool):
                self._restore(segment.sequence)
        return self._runner.run(segments)

    def _restore(self, sequence: PagedSequence) -> None:
        """Compute the state of a sequence anew, which went with a GPU."""
        fresh, tokens = self.new_sequence(), sequence.tokens
        for start in range(0, len(tokens), self.max_rows):
            self._runner.run([Segment(fresh, tokens[start : start + self.max_rows])])
        sequence.adopt(fresh)

    def stop(self) -> None:
        """Stop what is computed now, or next: `forward` raises Stopped until `clear_stop`."""
        self._stopping = True
        for device in self._runner.devices:
            device.stop()

    def clear_stop(self) -> None:
        """Forget an earlier `stop`; not while `forward` runs."""
        self._stopping = False
        for device in self._runner.devices:
            device.clear()

    def close(self) -> None:
        """End the threads and let go of the memory. Nothing may be computing; only the first call does something."""
        if not self._closed:
            self._runner.close()
            del self._model
            self._closed = True
