"""A model on its devices: a batch goes from one device to the next as the placement says."""

from collections.abc import Callable
from collections.abc import Sequence as Ids
from pathlib import Path
from time import perf_counter

from edgellm.arch.description import Description
from edgellm.engine.batch import Batch
from edgellm.engine.budget import KVBudget
from edgellm.engine.build_program import build_program
from edgellm.engine.checkpoints import CheckpointBudget
from edgellm.engine.closing import drop
from edgellm.engine.cpu import CPUDevice
from edgellm.engine.device import Device, Logits
from edgellm.engine.kv_pages import PagePool
from edgellm.engine.kv_stats import KVStats
from edgellm.engine.outputs import Floats, Outputs, OutputSettings
from edgellm.engine.page_tree import PageTree
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.placement import Placement, layer_before, runs
from edgellm.engine.position_tables import PositionTables
from edgellm.engine.protocol import Segment
from edgellm.engine.recurrent_states import StatePool, most_checkpoint_pages
from edgellm.engine.threadpool import ThreadPool
from edgellm.errors import NoMemoryError
from kquants.jit import Progress


class ModelRunner:
    """The CPU and perhaps a GPU, with the KV pages of all sequences. Raises EdgeLLMError.

    `ctx` is the most tokens of a sequence, `rows` the most rows of a batch. `page_bytes` are those of a page of each KV
    group on all devices. `check` is called after each batch, and raises if its logits must not be used. `outputs` may
    be set later to a part of those that it was made for. `pool` is as in `CPUDevice`.
    """

    def __init__(
        self,
        model: Description,
        placement: Placement,
        gpu: Device | None,
        *,
        kv_type: str,
        ctx: int,
        rows: int,
        threads: int,
        cache: Path,
        progress: Progress | None,
        check: Callable[[], None],
        budget: KVBudget,
        page_bytes: Ids[int],
        outputs: OutputSettings,
        read_ahead: bool,
        pool: ThreadPool | None = None,
    ) -> None:
        self.placement, self.gpu, self._model, self._check = placement, gpu, model, check
        self.outputs, self._budget = outputs, budget
        program = build_program(model, kv_type, placement, outputs, ctx, read_ahead)
        self.cpu = CPUDevice(program, model.logits, rows, threads, cache, progress, budget, pool)
        self.devices: list[Device] = [self.cpu, gpu] if gpu else [self.cpu]
        self._runs = runs(placement, outputs.taps)
        self.pools = [PagePool(self.devices, group, window) for group, window in enumerate(model.kv_groups)]
        self.checkpoints = CheckpointBudget(self._state_pool(program.state_bytes, budget))
        pages = [*page_bytes, *([program.state_bytes] if self.checkpoints.states else [])]
        self.tree = PageTree(self.pools, self.checkpoints, pages, budget.cached_limit)
        self._position_tables = PositionTables(model, ctx)

    def _state_pool(self, state_bytes: int, budget: KVBudget) -> StatePool | None:
        """The pages for recurrent states, which follow those of the KV groups; None without recurrent layers."""
        if not self._model.is_recurrent:
            return None
        pool = PagePool([self.cpu], len(self._model.kv_groups))
        return StatePool(pool, most_checkpoint_pages(state_bytes, budget))

    def new_sequence(self) -> PagedSequence:
        """An empty sequence, which leaves nothing to the prefix cache."""
        return PagedSequence(self.pools, self.checkpoints, self.tree)

    def kv_stats(self) -> KVStats:
        """The figures of all pages and states, and of the memory that they may take."""
        held = self.cpu.kv_bytes
        return self.tree.stats(held, held + self._budget.room(held))

    def run(self, segments: Ids[Segment[PagedSequence]]) -> Outputs:
        """The outputs that the settings ask for; the sequences then hold their tokens.

        Raises Stopped and DeviceFault, and ModelFileError where weights were lost while they were read. After an
        exception the sequences hold what they held before.
        """
        self._reserve(segments)
        batch = Batch(segments, self._position_tables)
        hidden = self.cpu.hidden(batch.rows, self._model.width)
        logits: Logits | None = None
        taps: dict[int, Floats] = {}
        for device, blocks in self._runs:
            started = perf_counter()
            logits = self.devices[device].run(blocks, batch, hidden)
            self.devices[device].stats.seconds += perf_counter() - started
            if (tapped := layer_before(blocks.stop)) in self.outputs.taps:
                taps[tapped] = hidden.copy()
        self._check()
        outputs = self._results(batch, logits, taps)
        for segment, start in zip(segments, batch.starts, strict=False):
            segment.sequence.append(segment)
            segment.sequence.tell_follower(outputs, slice(start, start + len(segment.tokens)))
        return outputs

    def _results(self, batch: Batch, logits: Logits | None, taps: dict[int, Floats]) -> Outputs:
        """Copies of what the settings ask for."""
        cpu, settings, width = self.cpu, self.outputs, self._model.width
        return Outputs(
            logits,
            cpu.last_hidden(batch.outputs, width) if settings.hidden else None,
            taps,
            cpu.take_inputs(),
            cpu.all_hidden(batch.rows, width) if settings.all_hidden else None,
            self._residual(batch) if settings.residual else None,
        )

    def _residual(self, batch: Batch) -> Floats:
        """The wanted rows of x, which the last norm leaves as it is. It has all rows where these are observed."""
        width = self._model.width
        if self.outputs.observes:
            return self.cpu.hidden(batch.rows, width)[batch.wanted]
        return self.cpu.hidden(batch.outputs, width).copy()

    def _reserve(self, segments: Ids[Segment[PagedSequence]]) -> None:
        """Reserve pages for all segments, or for none. Raises NoMemoryError."""
        try:
            for segment in segments:
                segment.sequence.reserve(segment)
        except NoMemoryError:
            for segment in segments:
                segment.sequence.free_reserved()
            raise

    def close(self) -> None:
        """Free all memory and drop all references to tensors. Nothing may be running; the threads stay.

        It can be repeated, also after an interrupt.
        """
        for device in self.devices:
            device.close()
        del self.devices[1:]
        drop(self, "gpu", "_model", "_position_tables", "_check")
