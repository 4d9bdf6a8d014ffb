"""What computes a head that has no cells of its own: its layers read those of the target's sequences."""

from collections.abc import Callable
from collections.abc import Sequence as Ids
from dataclasses import dataclass
from pathlib import Path

from edgellm.arch.description import Description
from edgellm.engine.batch import Batch
from edgellm.engine.closing import drop
from edgellm.engine.cpu import CPUDevice
from edgellm.engine.host_kv_pages import HostKVPages
from edgellm.engine.kv_pages import PageTable
from edgellm.engine.outputs import Outputs
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.position_tables import PositionTables
from edgellm.engine.program import Program
from edgellm.engine.protocol import Segment
from edgellm.engine.recurrent_states import RecurrentStates
from edgellm.engine.threadpool import ThreadPool
from kquants.jit import Progress


@dataclass(frozen=True)
class Prefix:
    """The first `length` tokens of a sequence, as rows see them that are not in it."""

    sequence: PagedSequence
    length: int

    @property
    def tables(self) -> list[PageTable]:
        """See `PagedSequence`."""
        return self.sequence.tables

    @property
    def states(self) -> RecurrentStates:
        """See `PagedSequence`."""
        return self.sequence.states

    def __len__(self) -> int:
        return self.length


class ReadingBatch(Batch):
    """Rows that have the position behind a prefix each, and see its cells alone: they write none."""

    def __init__(self, segments: Ids[Segment[Prefix]], position_tables: PositionTables) -> None:
        super().__init__(segments, position_tables)
        self.visible = self.cells


class TargetReader:
    """A device that computes rows of a head over the KV pages `pages` of its target. Raises the errors of `CPUDevice`.

    `check` is called after each batch, and raises if its outputs must not be used.
    """

    def __init__(
        self,
        program: Program,
        model: Description,
        *,
        ctx: int,
        rows: int,
        cache: Path,
        progress: Progress | None,
        check: Callable[[], None],
        pool: ThreadPool,
        pages: HostKVPages,
    ) -> None:
        self._model, self._check = model, check
        self._blocks = range(len(program.starts) - 1)
        self.cpu = CPUDevice(program, model.logits, rows, pool.count, cache, progress, pool=pool, pages=pages)
        self._position_tables = PositionTables(model, ctx)

    def run(self, segments: Ids[Segment[Prefix]]) -> Outputs:
        """Logits of the wanted rows, and the features of the rows behind them. Each segment has one row.

        Raises Stopped, and ModelFileError where weights were lost while they were read.
        """
        batch, width = ReadingBatch(segments, self._position_tables), self._model.hidden_width
        logits = self.cpu.run(self._blocks, batch, self.cpu.hidden(batch.rows, self._model.width))
        self._check()
        return Outputs(logits, self.cpu.last_hidden(batch.outputs, width), {}, [])

    def close(self) -> None:
        """Free all memory and drop all references to tensors. Nothing may be running; threads and pages stay.

        It can be repeated, also after an interrupt.
        """
        self.cpu.close()
        drop(self, "_model", "_position_tables", "_check")
