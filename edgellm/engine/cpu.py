"""The CPU as a device: it holds a program's buffers and KV pages, and runs its ops on all threads."""

from collections.abc import Sequence
from ctypes import addressof, c_char
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.adaptive_threads import AdaptiveThreads, TimeSample
from edgellm.engine.batch import Batch
from edgellm.engine.budget import NO_LIMIT, KVBudget, check_memory
from edgellm.engine.device import DeviceStats, Logits
from edgellm.engine.host_kv_pages import HostKVPages
from edgellm.engine.memory import aligned
from edgellm.engine.program import Buffer, Op, Program
from edgellm.engine.protocol import Stopped
from edgellm.engine.threadpool import POOL_KERNELS, ThreadPool
from edgellm.errors import EdgeLLMError, NoMemoryError
from edgellm.fmt import size
from edgellm.gguf import Tensor
from kquants import jit
from kquants.compiler.cpu import has_matrix_tiles
from kquants.layout import FEW_ROWS, MOST_TOKENS
from kquants.records import FIRST_ARGUMENT, NEXT_MATMUL, OP_WORDS, OpHeader, record_of_op

_ADVICE = "choose a smaller model or fewer threads, or close other programs"


def _row_bytes(buffer: Buffer) -> int:
    return buffer.row_bytes + (buffer.shorts_bytes if has_matrix_tiles() else 0)


class CPUDevice:
    """A program made ready for this CPU: kernels loaded, buffers for `rows` rows, `threads` threads with the caller.

    Raises EdgeLLMError where a kernel cannot be compiled or memory is short: beforehand, as Linux gives more memory
    than there is, and ends processes when it is used.
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
    ) -> None:
        lasting = [b for b in program.buffers if b != program.logits]  # those are the caller's, new each time
        needed = sum((b.rows or rows + MOST_TOKENS) * _row_bytes(b) for b in lasting) + threads * program.scratch_bytes
        check_memory(needed, "activations", _ADVICE)
        try:
            # read_sum: it measures the memory after a reply, when nobody should have to wait for a compiler.
            self._kernels = jit.load([*program.kernels, *POOL_KERNELS, "read_sum"], cache, progress)
            self._buffers = {b: aligned(b.rows or rows + MOST_TOKENS, _row_bytes(b)) for b in lasting}
            ops, scratch = len(program.ops), program.scratch_bytes
            self.threads = ThreadPool(threads, self._kernels, ops, scratch)
        except jit.KernelError as error:
            raise EdgeLLMError(f"the kernels for this CPU could not be made: {error}") from None
        except MemoryError:
            raise NoMemoryError(f"no memory for {size(needed)} of activations; {_ADVICE}") from None
        self._adaptive_threads = AdaptiveThreads(threads)
        self.work = DeviceStats()
        self._program = program  # its ops have the addresses of tensors: they keep the file's map
        self._pages = HostKVPages(program.page_bytes, budget)
        self._ops = np.array([self._record(op) for op in program.ops], np.int64)
        self._program_at = int(self._ops.ctypes.data)
        products = program.products
        for i, following in zip(products, products[1:] + products[:1], strict=True):
            self._ops[i, NEXT_MATMUL] = self._ops[following].ctypes.data
        self._x = self._buffers[program.x].view(np.float32)
        self._vocab, self._logits_at, self._used = vocab, None, tuple[object, ...]()
        if program.logits in program.buffers:  # the output head is the last op
            place = FIRST_ARGUMENT + program.ops[-1].arguments.index(program.logits)
            self._logits_at = self._ops[-1, place : place + 1].data
        self.ensure_pages, self.copy_page = self._pages.ensure_pages, self._pages.copy_page
        self.stop, self.clear = self.threads.stop, self.threads.clear

    def hidden(self, rows: int, width: int) -> NDArray[np.float32]:
        """The hidden state of the first rows, float32 [rows, width]: this device's own, which others change."""
        return self._x[:rows, :width]

    def run(self, blocks: range, batch: Batch, hidden: NDArray[np.float32]) -> Logits | None:
        """See `Device`; `hidden` is our own. The first blocks begin with the embeddings.

        The threads must be settled: what an interrupted run may still use goes with the next one.
        """
        starts = self._program.starts
        first = starts[blocks.start] if blocks.start else 0
        last = starts[blocks.stop]
        pages = self._pages.addresses
        record = batch.record(pages.address)
        logits = self._new_logits(batch.outputs) if blocks.stop == len(starts) - 1 else None
        self._used = batch, record, pages, logits
        decodes = batch.rows <= FEW_ROWS  # the ops of more are so long that nobody waits much
        threads, start = self._adaptive_threads.threads if decodes else self.threads.count, TimeSample.now()
        if not self.threads.run(self._program_at + first * OP_WORDS * 8, last - first, record.address, threads):
            raise Stopped
        if decodes:
            self._adaptive_threads.record_step((batch.rows, batch.outputs, blocks), start, TimeSample.now())
        return None if logits is None else logits[:, : self._vocab]

    def close(self) -> None:
        """End the threads and let go of buffers, pages and tensors. Nothing may be running."""
        self.threads.close()
        self._pages.clear()
        del self._buffers, self._x, self._program, self._used

    def _new_logits(self, outputs: int) -> Logits | None:
        """Where the output head, if it is here, now puts its logits: float32 [outputs, padded vocab]."""
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
            self._logits_at[0] = addressof(c_char.from_buffer(logits.data))  # NumPy takes ten times as long to tell it
        return logits

    def _record(self, op: Op) -> Sequence[int]:
        head = OpHeader(self._kernels[op.kernel], op.units, op.per_row, int(op.outputs), int(op.barrier))
        return record_of_op(head, type(op.arguments)(*map(self._address, op.arguments)))

    def _address(self, argument: float | Tensor | Buffer | None) -> float:
        """Where a tensor or a buffer lies; a number stays what it is."""
        match argument:
            case Tensor():
                return int(argument.data.ctypes.data)
            case Buffer():
                return 0 if argument == self._program.logits else int(self._buffers[argument].ctypes.data)
            case None:
                return 0
        return argument
