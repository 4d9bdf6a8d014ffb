"""A model on a GPU and the CPU: if the GPU fails, others go on, and compute again what was lost with it."""

from collections.abc import Sequence as Ids
from typing import Any

from edgellm.arch.description import Description
from edgellm.engine.closing import drop
from edgellm.engine.device import Device, DeviceFault
from edgellm.engine.disk import prepare_for_disk
from edgellm.engine.kv_pages import PagePool
from edgellm.engine.limits import BatchLimits
from edgellm.engine.model_runner import ModelRunner
from edgellm.engine.offload import OffloadRequest, OffloadTask, UploadProgress, device_figures
from edgellm.engine.open_gpu import GPUOpener
from edgellm.engine.outputs import Outputs
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.placement import Placement, fewer_layers, on_cpu
from edgellm.engine.protocol import Segment
from edgellm.gguf import GGUFFile


class FailoverRunner:
    """Runs batches on `current`; where its GPU fails, on another runner with fewer layers there, or on the CPU alone.

    `options` are those of each runner beside the `limits` of its batches. `figures` tell of each device: name, blocks
    (a mixer and a feed-forward a layer, and the output head), and bytes of weights.
    """

    current: ModelRunner
    figures: list[dict[str, Any]]

    def __init__(
        self, file: GGUFFile, model: Description, limits: BatchLimits, offload: OffloadRequest, options: dict[str, Any]
    ) -> None:
        self.model, self.rows, self._layers = model, limits.rows, offload.layers
        self._opener = GPUOpener(OffloadTask.of(file, limits, offload), len(model.layers))
        self._weights = sum(tensor.nbytes for tensor in file.tensors.values())
        self._options = options | {"kv_type": limits.kv_type, "ctx": limits.ctx, "rows": limits.rows}
        self._options |= {"check": file.check, "read_ahead": prepare_for_disk(file, model)}
        self._placement: Placement = on_cpu(len(model.layers))
        self._gpu: Device | None = None
        self._pools: list[list[PagePool]] = []  # of all runners so far: their sequences are ours
        self._stopping = False

    def open_gpu(self, progress: UploadProgress | None) -> bool:
        """Open a GPU as asked for, see `GPUOpener.open`; returns whether it computes any layers."""
        self._placement, self._gpu = self._opener.open(self._layers, progress)
        return self._gpu is not None

    def open(self, **changed: Any) -> None:
        """Make the runner that is used from now on, with some `options` changed. The one before is closed.

        After an error the one before is kept.
        """
        before, options, gpu = self.current if self._pools else None, self._options | changed, self._gpu
        try:
            runner = ModelRunner(self.model, self._placement, gpu, **options)
        except BaseException:
            if gpu:
                gpu.close()
            raise
        self.current, self._options = runner, options | {"pool": runner.cpu.threads}
        self._pools.append(runner.pools)
        self.figures = device_figures(self.model, self._placement, self._weights, gpu.name if gpu else None)
        if self._stopping:
            self.stop()
        if before:
            before.close()

    def reopen(self, **changed: Any) -> None:
        """As `open`, while nothing was computed: the one before is closed first, as memory may be short for both."""
        self.current.close()
        self._pools.clear()
        self.open(**changed)

    def made(self, sequence: PagedSequence) -> bool:
        """Whether a sequence is of `current`, or of a runner before it."""
        return any(sequence.belongs_to(pools) for pools in self._pools)

    def run(self, segments: Ids[Segment[PagedSequence]]) -> Outputs:
        """The outputs of a batch; see `ModelRunner.run`. Raises EdgeLLMError where a request for a GPU is strict."""
        while True:
            try:
                for segment in segments:
                    if not segment.sequence.belongs_to(self.current.pools):
                        self.restore(segment.sequence)
                return self.current.run([s for s in segments if s.tokens])  # kernels read the last row of each
            except DeviceFault as fault:
                self._fall_back(fault)

    def _fall_back(self, fault: DeviceFault) -> None:
        """Go on with fewer layers on the GPU, if its memory is full, or without it."""
        broken = self.current  # kept until there is another, so that an interrupt or a lack of memory changes nothing
        fewer = fewer_layers(broken.placement) if fault.out_of_memory else 0
        self._opener.report(fault, fewer)
        if fewer and broken.gpu:
            broken.gpu.close()
        self._placement, self._gpu = self._opener.open(fewer)
        self.open()

    def restore(self, sequence: PagedSequence) -> None:
        """Compute the state of a sequence and its checkpoints again, after they were lost with a GPU."""
        fresh = self.current.tree.new_sequence() if sequence.node else self.current.new_sequence()
        tokens, rows = sequence.tokens, self.rows
        marks = [length - 1 for length in sequence.marked]
        for start in range(0, len(tokens), rows):
            part = tokens[start : start + rows]
            embeddings = {at - start: each for at, each in sequence.embeddings.items() if 0 <= at - start < len(part)}
            within = [at - start for at in marks if start <= at < start + len(part)]
            self.current.run([Segment(fresh, part, embeddings=embeddings, marks=within)])
        sequence.adopt(fresh)

    def stop(self) -> None:
        """Stop the running batch, or the next: it raises Stopped until `clear_stop`. Any thread may call this."""
        self._stopping = True
        for device in self.current.devices:
            device.stop()

    def clear_stop(self) -> None:
        """Forget an earlier `stop`; not while a batch runs."""
        self._stopping = False
        for device in self.current.devices:
            device.clear()

    def close(self) -> None:
        """Free the memory, and drop all references to tensors. Nothing may be running; the threads stay.

        It can be repeated, also after an interrupt.
        """
        if self._pools:
            self.current.close()
        elif self._gpu:
            self._gpu.close()
        self._gpu = None
        drop(self, "model")
