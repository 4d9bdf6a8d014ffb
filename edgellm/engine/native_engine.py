"""edgellm's own engine: batches of rows in, logits out."""

import warnings
from collections.abc import Sequence as Ids
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.arch import describe
from edgellm.engine.budget import NO_LIMIT, KVBudget
from edgellm.engine.build_program import build_program
from edgellm.engine.device import Device, DeviceFault, DeviceStats
from edgellm.engine.disk import prepare_for_disk
from edgellm.engine.head_engine import HeadEngine, HeadRequest, outputs_for
from edgellm.engine.kv_pages import PagePool
from edgellm.engine.kv_stats import KVStats
from edgellm.engine.limits import BatchLimits, context_length, max_batch_rows
from edgellm.engine.model_runner import ModelRunner
from edgellm.engine.offload import NO_OFFLOAD, OffloadRequest, OffloadTask, UploadProgress, device_figures
from edgellm.engine.open_gpu import GPUOpener
from edgellm.engine.outputs import LOGITS, InputSquares, Outputs, OutputSettings
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.placement import Placement, fewer_layers
from edgellm.engine.protocol import Segment, check_batch
from edgellm.engine.threadpool import ThreadPool
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, NoMemoryError
from edgellm.gguf import GGUFFile
from edgellm.system.fork import ForkGuard
from kquants.jit import Progress


class NativeEngine:
    """A model on this machine. Not for several threads at once; only `stop` may be called from any.

    See `edgellm.engine.protocol.Engine`. While the CPU computes alone, logits do not depend on how tokens are split
    into batches. If a GPU fails, the CPU goes on, and computes the state of the sequences again from their tokens.

    Engines that compute in turn can share `pool`, the threads: then `stop` of one stops whichever runs, and none may
    be closed while another runs. The engine that made the pool ends the threads; others are closed before it or after.

    `head` is the engine of a head that drafts for the model, if there is one: it follows every sequence. There is none
    where a GPU computes, as a step there has other bits with drafts than without.
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
        outputs: OutputSettings = LOGITS,
        pool: ThreadPool | None = None,
        head: HeadRequest | None = None,
    ) -> None:
        """Describe, check and make ready the model of an open file; its tensors stay in the map.

        With `pool`, the threads of another engine, `threads` does not count. `head` is one that drafts for the model.

        Raises UnsupportedModelError, ModelFileError, OptionError for a `ctx` above the model's, and EdgeLLMError, also
        for taps at layers that the model does not have, and where a strict request for a GPU fails. Where another
        request fails, a warning says so.
        """
        model = self._model = describe(file)
        self.ctx = context_length(file, model, ctx)
        outputs.check(len(model.layers))
        self.vocab = model.vocab
        whole = build_program(model, kv_type, ctx=self.ctx)
        self.max_rows = max_batch_rows(whole, self.ctx)
        self._options: dict[str, Any] = {"kv_type": kv_type, "ctx": self.ctx, "rows": self.max_rows, "threads": threads}
        self._options |= {"cache": cache, "progress": progress, "check": file.check, "budget": budget}
        self._options |= {"page_bytes": whole.page_bytes, "pool": pool}
        self._options |= {"read_ahead": prepare_for_disk(file, model)}
        offload = replace(offload, cpu_head=outputs.needs_cpu_head)  # a GPU's head gives logits alone
        if outputs.observes:
            offload = NO_OFFLOAD
        task = OffloadTask.of(file, BatchLimits(self.max_rows, self.ctx, kv_type), offload)
        self._gpu_opener = GPUOpener(task, len(model.layers))
        self._weights = sum(tensor.nbytes for tensor in file.tensors.values())
        self._budget = budget
        self._pools: list[list[PagePool]] = []
        self._closed = self._stopping = False
        self._fork_guard = ForkGuard()
        placement, gpu = self._gpu_opener.open(offload.layers, uploading)
        head = None if gpu else head
        self._options["outputs"] = outputs_for(head.head, outputs) if head else outputs
        self._run_on(placement, gpu)
        self._owns_pool, self.pool = pool is None, self._runner.cpu.threads
        self._options["pool"] = self.pool
        self.head: HeadEngine | None = None
        if head:
            try:
                self._open_head(head, outputs)
            except BaseException:
                self.close()  # who opens it gets nothing that could be closed
                raise

    def _open_head(self, head: HeadRequest, outputs: OutputSettings) -> None:
        """Make the head ready. Without memory for it, a warning says so, and the model gives `outputs` alone."""
        shared = {name: self._options[name] for name in ("kv_type", "ctx", "cache", "progress")}
        shared["pages"] = self._runner.cpu.pages
        check = self._options["check"]

        def check_both() -> None:
            check()
            head.check()

        try:
            self.head = HeadEngine(head.head, pool=self.pool, budget=head.budget, check=check_both, **shared)
        except NoMemoryError as error:
            warnings.warn(f"the head that drafts is left out: {error}", EdgeLLMWarning, stacklevel=4)
            with_features = self._runner
            self._options["outputs"] = outputs
            self._run_on(with_features.placement, None)
            self._pools.remove(with_features.pools)
            with_features.close()

    def _run_on(self, placement: Placement, gpu: Device | None) -> None:
        try:
            self._runner = ModelRunner(self._model, placement, gpu, **self._options)
        except BaseException:
            if gpu:
                gpu.close()
            raise
        self._pools.append(self._runner.pools)
        self._figures = device_figures(self._model, placement, self._weights, gpu.name if gpu else None)
        if self._stopping:
            self.stop()

    @property
    def threads(self) -> int:
        """The number of threads that compute."""
        return self.pool.count

    @property
    def batch_invariant(self) -> bool:
        """True without a GPU, whose sums are in another order for larger batches; see `protocol.Engine`."""
        return len(self.devices) == 1

    @property
    def devices(self) -> list[dict[str, Any]]:
        """Of each device: name, blocks (a mixer and a feed-forward a layer, and the head), bytes of weights."""
        return self._figures

    @property
    def device_stats(self) -> list[DeviceStats]:
        """What each of `devices` did since it was made ready."""
        return [replace(device.stats) for device in self._runner.devices]

    def new_sequence(self) -> PagedSequence:
        """An empty sequence, which leaves nothing to the prefix cache."""
        return self._followed(PagedSequence(self._runner.pools, self._runner.checkpoints, self._runner.tree))

    def begin(self, ids: Ids[int]) -> PagedSequence:
        """See `protocol.Engine`."""
        return self._followed(self._runner.tree.begin(ids))

    def _followed(self, sequence: PagedSequence) -> PagedSequence:
        """A new sequence, which the head follows, if there is one."""
        sequence.follower = self.head.follow() if self.head else None
        return sequence

    def retire(self, sequence: PagedSequence) -> None:
        """See `protocol.Engine`."""
        if sequence.belongs_to(self._runner.pools):
            self._runner.tree.retire(sequence)

    def evict(self) -> bool:
        """See `protocol.Engine`."""
        return self._runner.tree.evict()

    def kv_stats(self) -> KVStats:
        """See `protocol.Engine`."""
        held = self._runner.cpu.kv_bytes
        return self._runner.tree.stats(held, held + self._budget.room(held))

    def forward(self, segments: Ids[Segment[PagedSequence]]) -> NDArray[np.float32]:
        """Compute up to `max_rows` rows, of different sequences; return float32 [wanted rows, vocab]. See `compute`."""
        logits = self.compute(segments).logits
        assert logits is not None, "the engine was opened without logits"
        return logits

    def compute(self, segments: Ids[Segment[PagedSequence]]) -> Outputs:
        """Compute up to `max_rows` rows, of different sequences; return what `outputs` asked for at the opening.

        Each sequence then holds its new tokens. Raises Stopped, ContextOverflowError, and EdgeLLMError for token
        ids that the model does not have, for embeddings of another width, or if its file was cut short; in each case
        the sequences hold what they held before.
        """
        self._fork_guard.check("the engine")
        if self._closed:
            raise EdgeLLMError("the engine was closed; open the model again")
        self.pool.settle()  # before anything that an interrupted run may still use is touched
        check_batch(self, segments)
        self._check_embeddings(segments)
        if not all(any(segment.sequence.belongs_to(pools) for pools in self._pools) for segment in segments):
            raise EdgeLLMError("a sequence belongs to the engine that made it")
        while True:
            try:
                return self._compute(segments)
            except DeviceFault as fault:
                self._fall_back(fault)

    def take_squares(self) -> list[InputSquares]:
        """Of each input of matrices, in the order of the layers, the sums of squares since they were last taken.

        They are those of all batches, also of one that was stopped. Their bits depend neither on the number of threads
        nor on how rows are split into batches. Empty unless the engine was opened with `squares`.
        """
        self.pool.settle()
        return self._runner.cpu.take_squares()

    def _check_embeddings(self, segments: Ids[Segment[PagedSequence]]) -> None:
        """Raise EdgeLLMError for embeddings that are not as wide as the model: kernels copy them without a check."""
        width = self._model.width
        for segment in segments:
            for i, embedding in segment.embeddings.items():
                if np.shape(embedding) != (width,) or not 0 <= i < len(segment.tokens):
                    shape = list(np.shape(embedding))
                    raise EdgeLLMError(
                        f"the embedding of token {i} has shape {shape}; give [{width}], for tokens there are"
                    )

    def _fall_back(self, fault: DeviceFault) -> None:
        """Go on with fewer layers on the GPU, if its memory is full, or without it."""
        broken = self._runner  # kept until there is another, so that an interrupt or a lack of memory changes nothing
        fewer = fewer_layers(broken.placement) if fault.out_of_memory else 0
        self._gpu_opener.report(fault, fewer)
        if fewer and broken.gpu:
            broken.gpu.close()
        self._run_on(*self._gpu_opener.open(fewer))
        broken.close()

    def _compute(self, segments: Ids[Segment[PagedSequence]]) -> Outputs:
        for segment in segments:
            if not segment.sequence.belongs_to(self._runner.pools):
                self._restore(segment.sequence)
        return self._runner.run([s for s in segments if s.tokens])  # kernels read the last row of each segment

    def _restore(self, sequence: PagedSequence) -> None:
        """Compute the state of a sequence and its checkpoints again, after they were lost with a GPU."""
        fresh = self._runner.tree.new_sequence() if sequence.node else self.new_sequence()
        tokens = sequence.tokens
        marks = [length - 1 for length in sequence.marked]
        for start in range(0, len(tokens), self.max_rows):
            part = tokens[start : start + self.max_rows]
            embeddings = {at - start: each for at, each in sequence.embeddings.items() if 0 <= at - start < len(part)}
            within = [at - start for at in marks if start <= at < start + len(part)]
            self._runner.run([Segment(fresh, part, embeddings=embeddings, marks=within)])
        sequence.adopt(fresh)

    def stop(self) -> None:
        """Stop the running `forward`, or the next: it raises Stopped until `clear_stop`."""
        self._stopping = True
        for device in self._runner.devices:
            device.stop()

    def clear_stop(self) -> None:
        """Forget an earlier `stop`; not while `forward` runs."""
        self._stopping = False
        for device in self._runner.devices:
            device.clear()

    def close(self) -> None:
        """End the threads and free the memory. No `forward` may be running. Further calls do nothing.

        Threads of another engine go on.
        """
        if not self._closed:
            if self.head:
                self.head.close()
            self._runner.close()
            if self._owns_pool:
                self.pool.close()
            del self._model
            self._closed = True
