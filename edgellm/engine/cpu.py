"""The CPU as a device: it holds a program's buffers and KV pages, and runs its ops on all threads."""

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.batch import Batch
from edgellm.engine.memory import aligned
from edgellm.engine.pages import PagePool
from edgellm.engine.program import Argument, Buffer, Op, Program
from edgellm.engine.threads import ThreadPool
from edgellm.errors import EdgeLLMError
from edgellm.gguf import Tensor
from kquants import jit
from kquants.layout import FIRST_ARGUMENT, MOST_TOKENS, OP_WORDS


class CPUDevice:
    """A program made ready for this CPU: kernels loaded, buffers for `rows` rows, `threads` threads waiting.

    Raises EdgeLLMError where a kernel cannot be compiled or memory is short.
    """

    def __init__(self, program: Program, rows: int, threads: int, cache: Path, progress: jit.Progress | None) -> None:
        try:
            # read_sum: it measures the memory after a reply, when nobody should have to wait for a compiler.
            self._kernels = jit.load([*program.kernels, "run", "read_sum"], cache, progress)
            self._buffers = {b: aligned(b.rows or rows + MOST_TOKENS, b.row_bytes) for b in program.buffers}
            ops, scratch = len(program.ops), program.scratch_bytes
            self.threads = ThreadPool(threads, self._kernels["run"], ops, scratch)
        except jit.KernelError as error:
            raise EdgeLLMError(f"the kernels for this CPU could not be made: {error}") from None
        except MemoryError:
            needed = sum((b.rows or rows) * b.row_bytes for b in program.buffers) + threads * program.scratch_bytes
            raise EdgeLLMError(f"no memory for {needed >> 20} MiB of activations; close other programs") from None
        self._program = program  # its ops have the addresses of tensors: they keep the file's map
        self.pages = PagePool(program.page_bytes)
        self._ops = np.array([self._record(op) for op in program.ops], np.int64)
        self._logits = self._buffers[program.logits].view(np.float32)

    def run(self, batch: Batch, vocab: int) -> NDArray[np.float32] | None:
        """Run the program over a batch: its logits, a float32 copy [outputs, vocab], or None if stopped.

        The threads must be settled: what an interrupted run may still use goes with the next batch.
        """
        self._batch = batch
        if not self.threads.run(self._ops.ctypes.data, len(self._ops), batch.record.ctypes.data):
            return None
        return self._logits[: batch.outputs, :vocab].copy()

    def close(self) -> None:
        """End the threads and let go of buffers, pages and tensors. Nothing may be running."""
        self.threads.close()
        self.pages.clear()
        del self._buffers, self._logits, self._program

    def _record(self, op: Op) -> Sequence[int]:
        """The 16 words of an op; their meaning is in `kquants.interpreter`."""
        words = [self._kernels[op.kernel], op.units, op.per_row, int(op.outputs), int(op.meet)]
        words += map(self._word, op.arguments)
        assert FIRST_ARGUMENT + len(op.arguments) <= OP_WORDS
        return words + [0] * (OP_WORDS - len(words))

    def _word(self, argument: Argument) -> int:
        match argument:
            case Tensor():
                return int(argument.data.ctypes.data)
            case Buffer():
                return int(self._buffers[argument].ctypes.data)
            case float():
                return int.from_bytes(struct.pack("<f", argument), "little")
            case None:
                return 0
        return argument
