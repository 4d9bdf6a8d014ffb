"""The CPU as a device: it holds a program's buffers and KV pages, and runs its ops on all threads."""

from collections.abc import Sequence
from ctypes import addressof, c_char
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.adaptive_threads import AdaptiveThreads, TimeSample
from edgellm.engine.batch import RowBatch
from edgellm.engine.budget import NO_LIMIT, KVBudget, check_memory
from edgellm.engine.closing import drop
from edgellm.engine.device import DeviceStats, Logits
from edgellm.engine.host_kv_pages import HostKVPages
from edgellm.engine.memory import aligned
from edgellm.engine.outputs import InputSquares, MatrixInput
from edgellm.engine.program import Buffer, Op, Program
from edgellm.engine.protocol import Stopped
from edgellm.engine.threadpool import POOL_KERNELS, ThreadPool
from edgellm.errors import EdgeLLMError, NoMemoryError
from edgellm.fmt import size
from edgellm.gguf import Tensor
from kquants import jit
from kquants.layout import FEW_ROWS
from kquants.records import FIRST_ARGUMENT, NEXT_MATMUL, OP_WORDS, OpHeader, record_of_op
from kquants.tuning import tuning

_ADVICE = "choose a smaller model or fewer threads, or close other programs"


def _row_bytes(buffer: Buffer) -> int:
    return buffer.row_bytes + (buffer.int16_bytes if tuning().amx else 0)


class CPUDevice:
    """A program made ready for this CPU: kernels loaded, buffers for `rows` rows, `threads` threads with the caller.

    With `pool` it computes on the threads of another device, while that one does not; who made the pool closes it. With
    `pages` it reads the KV pages of another device, and has none of its own.
    Raises EdgeLLMError where a kernel cannot be compiled or memory is short. Memory is checked before it is taken, as
    Linux gives out more than there is, and ends processes when it is used.
    """

    name = "CPU"

    def __init__(
        self,
        program: Program,
        vocab: int,
        rows: int,
        threads: int,
        cache: Path,
        progress: jit.Progress | None,
        budget: KVBudget = NO_LIMIT,
        pool: ThreadPool | None = None,
        pages: HostKVPages | None = None,
    ) -> None:
        kept = [b for b in program.buffers if b != program.logits]  # logits are the caller's, and new for each batch
        ops, scratch = len(program.ops), program.scratch_bytes
        new_scratch = 0 if pool and pool.has_room(ops, scratch) else scratch * (pool.count if pool else threads)
        needed = sum(b.count(rows) * _row_bytes(b) for b in kept) + new_scratch
        check_memory(needed, "activations", _ADVICE)
        try:
            # read_sum measures the memory bandwidth after a reply, which should not wait for a compiler.
            self._kernels = jit.load([*program.kernels, *POOL_KERNELS, "read_sum"], cache, progress)
            self._buffers = {b: aligned(b.count(rows), _row_bytes(b)) for b in kept}
            self.threads = pool or ThreadPool(threads, self._kernels, ops, scratch)
            self.threads.reserve(ops, scratch)
        except jit.KernelError as error:
            raise EdgeLLMError(f"the kernels for this CPU could not be made: {error}") from None
        except MemoryError:
            raise NoMemoryError(f"no memory for {size(needed)} of activations; {_ADVICE}") from None
        self._adaptive_threads = AdaptiveThreads(self.threads.count)
        self.stats = DeviceStats()
        self._program = program  # its ops have the addresses of tensors: they keep the file's map
        self._owns_pages = pages is None
        self.pages = pages or HostKVPages(program.page_bytes, budget, program.state_bytes)
        self._ops = self._records()
        self._program_at = int(self._ops.ctypes.data)
        self._x = self._buffers[program.x].view(np.float32)
        self._hidden = self._buffers[program.hidden].view(np.float32) if program.hidden in self._buffers else None
        self._vocab, self._used = vocab, tuple[object, ...]()
        self._inputs: list[MatrixInput] = []
        self._logits_at = [  # the words of records that the address of the logits goes to
            self._ops[i, FIRST_ARGUMENT + place : FIRST_ARGUMENT + place + 1].data
            for i, op in enumerate(program.ops)
            for place, argument in enumerate(op.arguments)
            if argument == program.logits
        ]
        self.ensure_pages, self.copy_page = self.pages.ensure_pages, self.pages.copy_page
        self.stop, self.clear = self.threads.stop, self.threads.clear

    def _records(self) -> NDArray[np.int64]:
        """The records of all ops, int64 [ops, OP_WORDS]. Each matmul knows the next one, and the last the first."""
        records = np.array([self._record(op) for op in self._program.ops], np.int64)
        matmuls = self._program.matmuls
        for i, following in zip(matmuls, matmuls[1:] + matmuls[:1], strict=True):
            records[i, NEXT_MATMUL] = records[following].ctypes.data
        return records

    def hidden(self, rows: int, width: int) -> NDArray[np.float32]:
        """The hidden state of the first rows, float32 [rows, width]: a view of this device's buffer."""
        return self._x[:rows, :width]

    def last_hidden(self, rows: int, width: int) -> NDArray[np.float32]:
        """A copy of what the output matrix reads, float32 [rows, width], if the program keeps it."""
        assert self._hidden is not None, "the program keeps no hidden state behind the last norm"
        return self._hidden[:rows, :width].copy()

    def all_hidden(self, rows: int, width: int) -> NDArray[np.float32]:
        """A copy of the state of all rows behind the last norm, float32 [rows, width], if the program keeps it."""
        assert self._program.all_hidden, "the program keeps no hidden states of all rows"
        return self._buffers[self._program.all_hidden].view(np.float32)[:rows, :width].copy()

    def take_squares(self) -> list[InputSquares]:
        """The sums of squares of the batches since they were last taken, which begin again at zero."""
        found = []
        for each in self._program.observed:
            sums, counts = self._buffers[each.sums].view(np.float64), self._buffers[each.counts].view(np.int64)
            found.append(InputSquares(each.names, sums[:, : each.columns].copy(), counts[0, : each.counted].copy()))
            sums[:], counts[:] = 0, 0
        return found

    def run(self, blocks: range, batch: RowBatch, hidden: NDArray[np.float32]) -> Logits | None:
        """See `Device`; `hidden` is that of `hidden()`. The first blocks begin with the embeddings.

        The threads must be settled, as memory that an interrupted run may still use is freed by the next run.
        """
        starts = self._program.starts
        if blocks.start == 0:
            self._inputs = []  # of a batch that was stopped
            self._place_features(batch)
        first = starts[blocks.start] if blocks.start else 0
        last = starts[blocks.stop]
        pages = self.pages.addresses
        record = batch.record(pages.address)
        logits = self._new_logits(batch.outputs) if blocks.stop == len(starts) - 1 else None
        self._used = batch, record, pages, logits
        is_decode = batch.rows <= FEW_ROWS  # in larger batches ops are long, so that little time is lost at barriers
        threads, start = self._adaptive_threads.threads if is_decode else self.threads.count, TimeSample.now()
        self._run_ops(first, last, record.address, threads, batch.rows)
        if is_decode:
            self._adaptive_threads.record_step((batch.rows, batch.outputs, blocks), start, TimeSample.now())
        return None if logits is None else logits[:, : self._vocab]

    def _place_features(self, batch: RowBatch) -> None:
        """Copy the features of a batch to where the program reads them."""
        for place in self._program.features:
            assert batch.features is not None, "a head computes no rows without features"
            rows = self._buffers[place.buffer].view(np.float32)
            rows[: batch.rows, place.first : place.first + place.columns] = batch.features

    def _run_ops(self, first: int, last: int, batch: int, threads: int, rows: int) -> None:
        """Run ops `first` to before `last`, with pauses to keep wanted inputs of matrices. Raises Stopped."""
        given = [each for each in self._program.given if first < each.op <= last]
        for each, end in [*((each, each.op) for each in given), (None, last)]:
            if not self.threads.run(self._program_at + first * OP_WORDS * 8, end - first, batch, threads):
                raise Stopped
            first = end
            if each:
                x = self._buffers[each.buffer].view(np.float32)[:rows, : each.columns]
                self._inputs.append(MatrixInput(each.names, x.copy()))

    def take_inputs(self) -> list[MatrixInput]:
        """The inputs of matrices of the last batch, all rows; they are given once."""
        inputs, self._inputs = self._inputs, []
        return inputs

    @property
    def kv_bytes(self) -> int:
        """Bytes that are taken for KV pages and states."""
        return self.pages.held if self._owns_pages else 0

    def close(self) -> None:
        """Free buffers, pages and references to tensors, but not the threads. Nothing may be running.

        It can be repeated, also after an interrupt.
        """
        self.threads.settle()  # an interrupted run may still use them
        if self._owns_pages:
            self.pages.clear()
        drop(self, "_buffers", "_x", "_hidden", "_program", "_used")

    def _new_logits(self, outputs: int) -> Logits | None:
        """The array for the logits of the next run, float32 [outputs, padded vocab]; None without the output head."""
        if not self._logits_at:
            return None
        row_bytes = self._program.logits.row_bytes
        check_memory(outputs * row_bytes, "logits", "ask for fewer, or close other programs")
        try:
            logits = np.empty((outputs, row_bytes // 4), np.float32)
        except MemoryError:
            needed = outputs * row_bytes >> 20
            raise EdgeLLMError(
                f"no memory for {needed} MiB of logits; ask for fewer, or close other programs"
            ) from None
        if outputs:
            address = addressof(c_char.from_buffer(logits.data))  # ten times as fast as logits.ctypes.data
            for word in self._logits_at:
                word[0] = address
        return logits

    def _record(self, op: Op) -> Sequence[int]:
        factor = self._address(op.units_factor)
        kernel = self._kernels[op.kernel]
        head = OpHeader(kernel, op.units, op.per_row, int(op.outputs), int(op.barrier), op.slots, factor)
        return record_of_op(head, type(op.arguments)(*map(self._address, op.arguments)))

    def _address(self, argument: float | Tensor | Buffer | None) -> float:
        """The address of a tensor or a buffer, 0 for None; a number as it is."""
        match argument:
            case Tensor():
                return int(argument.data.ctypes.data)
            case Buffer():
                return 0 if argument == self._program.logits else int(self._buffers[argument].ctypes.data)
            case None:
                return 0
        return argument
