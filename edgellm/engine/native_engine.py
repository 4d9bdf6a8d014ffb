"""edgellm's own engine: batches of rows in, logits out."""

from collections.abc import Sequence as Ids
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgellm.arch import describe
from edgellm.engine.budget import NO_LIMIT, KVBudget
from edgellm.engine.build_program import build_program
from edgellm.engine.device import DeviceStats
from edgellm.engine.failover import FailoverRunner
from edgellm.engine.head_engine import HeadEngine
from edgellm.engine.head_request import ON_GPU, HeadRequest
from edgellm.engine.kv_stats import KVStats
from edgellm.engine.limits import BatchLimits, context_length, max_batch_rows
from edgellm.engine.model_runner import ModelRunner
from edgellm.engine.offload import NO_OFFLOAD, OffloadRequest, UploadProgress
from edgellm.engine.outputs import LOGITS, InputSquares, Outputs, OutputSettings
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Segment, check_batch
from edgellm.engine.threadpool import ThreadPool
from edgellm.errors import EdgeLLMError
from edgellm.gguf import GGUFFile
from edgellm.system.fork import ForkGuard
from kquants.jit import Progress


class NativeEngine:
    """A model on this machine. Not for several threads at once; only `stop` may be called from any.

    See `edgellm.engine.protocol.Engine`. While the CPU computes alone, logits do not depend on how tokens are split
    into batches. If a GPU fails, the CPU goes on, and computes the state of the sequences again from their tokens.

    Engines that compute in turn can share `pool`, the threads: then `stop` of one stops whichever runs, and none may
    be closed while another runs. The engine that made the pool ends the threads; others are closed before it or after.

    `draft_head` is the engine of a head that drafts for the model, if there is one: it follows every sequence. There is
    none where a GPU computes, as a step there has other bits with drafts than without.
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
        draft_head: HeadRequest | None = None,
    ) -> None:
        """Describe, check and make ready the model of an open file; its tensors stay in the map.

        With `pool`, the threads of another engine, `threads` does not count. `draft_head` drafts for the model.

        Raises UnsupportedModelError, ModelFileError, OptionError for a `ctx` above the model's, and EdgeLLMError, also
        for taps at layers that the model does not have, and where a strict request for a GPU fails. Where another
        request fails, a warning says so.
        """
        model = describe(file)
        self.ctx = context_length(file, model, ctx)
        outputs.check(len(model.layers))
        whole = build_program(model, kv_type, ctx=self.ctx)
        limits = BatchLimits(max_batch_rows(whole, self.ctx), self.ctx, kv_type)
        self.max_rows, self.vocab, self._width = limits.rows, model.vocab, model.width
        self.draft_head: HeadEngine | None = None
        self._outputs = outputs
        self._closed, self._owns_pool, self._fork_guard = False, False, ForkGuard()
        # A GPU's head gives logits alone, and its matrices tell nothing of what they are multiplied by.
        offload = NO_OFFLOAD if outputs.observes else replace(offload, cpu_head=outputs.needs_cpu_head)
        shared: dict[str, Any] = {"cache": cache, "progress": progress}
        options = shared | {"threads": threads, "pool": pool, "page_bytes": whole.page_bytes}
        self._failover = FailoverRunner(file, model, limits, offload, options)
        shared |= {"kv_type": kv_type, "ctx": self.ctx, "check": file.check}
        try:
            if self._failover.open_gpu(uploading) and draft_head:
                budget, draft_head = draft_head.leave_out(ON_GPU) or budget, None
            self._failover.open(outputs=draft_head.outputs(outputs) if draft_head else outputs, budget=budget)
            self._owns_pool, self.pool = pool is None, self._runner.cpu.threads
            if draft_head:
                self._open_draft_head(draft_head, budget, shared)
        except BaseException:
            self.close()  # who opens it gets nothing that could be closed
            raise

    def _open_draft_head(self, request: HeadRequest, budget: KVBudget, shared: dict[str, Any]) -> None:
        """Make the head ready. If it is left out, the model gives nothing for it."""
        try:
            self.draft_head = request.open(pool=self.pool, pages=self._runner.cpu.pages, **shared)
            return
        except request.tolerated as error:
            why = str(error)  # the error is not kept: its frames have what was made of the head
        budget = request.leave_out(why) or budget
        self._failover.reopen(outputs=self._outputs, budget=budget)

    @property
    def _runner(self) -> ModelRunner:
        return self._failover.current

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
        return self._failover.figures

    @property
    def device_stats(self) -> list[DeviceStats]:
        """What each of `devices` did since it was made ready."""
        return [replace(device.stats) for device in self._runner.devices]

    def new_sequence(self) -> PagedSequence:
        """An empty sequence, which leaves nothing to the prefix cache."""
        return self._followed(self._runner.new_sequence())

    def begin(self, ids: Ids[int]) -> PagedSequence:
        """See `protocol.Engine`."""
        return self._followed(self._runner.tree.begin(ids))

    def _followed(self, sequence: PagedSequence) -> PagedSequence:
        """A new sequence, which the head follows, if there is one."""
        sequence.follower = self.draft_head.follow() if self.draft_head else None
        return sequence

    def stop_following(self) -> None:
        """The head drafts nothing any more: batches keep no features for it. Within the turn of the engine."""
        if self.draft_head:
            self.draft_head.stop_following()
        self._runner.outputs = self._outputs

    def retire(self, sequence: PagedSequence) -> None:
        """See `protocol.Engine`."""
        if sequence.belongs_to(self._runner.pools):
            self._runner.tree.retire(sequence)

    def evict(self) -> bool:
        """See `protocol.Engine`."""
        return self._runner.tree.evict()

    def kv_stats(self) -> KVStats:
        """See `protocol.Engine`."""
        found = self._runner.kv_stats()  # first, as it takes the sequences that ended, which the head followed
        head = self.draft_head.kv_stats() if self.draft_head else None
        return found + head if head else found

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
        if not all(self._failover.made(segment.sequence) for segment in segments):
            raise EdgeLLMError("a sequence belongs to the engine that made it")
        return self._failover.run(segments)

    def take_squares(self) -> list[InputSquares]:
        """Of each input of matrices, in the order of the layers, the sums of squares since they were last taken.

        They are those of all batches, also of one that was stopped. Their bits depend neither on the number of threads
        nor on how rows are split into batches. Empty unless the engine was opened with `squares`.
        """
        self.pool.settle()
        return self._runner.cpu.take_squares()

    def _check_embeddings(self, segments: Ids[Segment[PagedSequence]]) -> None:
        """Raise EdgeLLMError for embeddings that are not as wide as the model: kernels copy them without a check."""
        width = self._width
        for segment in segments:
            for i, embedding in segment.embeddings.items():
                if np.shape(embedding) != (width,) or not 0 <= i < len(segment.tokens):
                    shape = list(np.shape(embedding))
                    raise EdgeLLMError(
                        f"the embedding of token {i} has shape {shape}; give [{width}], for tokens there are"
                    )

    def stop(self) -> None:
        """Stop the running `forward`, or the next: it raises Stopped until `clear_stop`."""
        self._failover.stop()

    def clear_stop(self) -> None:
        """Forget an earlier `stop`; not while `forward` runs."""
        self._failover.clear_stop()

    def close(self) -> None:
        """End the threads and free the memory. No `forward` may be running. Further calls do nothing.

        Threads of another engine go on.
        """
        if not self._closed:
            if self.draft_head:
                self.draft_head.close()
            self._failover.close()
            if self._owns_pool:
                self.pool.close()
            self._closed = True
