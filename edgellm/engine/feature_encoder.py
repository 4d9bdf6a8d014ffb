"""The encoder of an EAGLE-3 head: from hidden states of the target to features, on the CPU's threads."""

from array import array
from pathlib import Path

import numpy as np

from edgellm.arch.head import FeatureEncoder
from edgellm.engine.activations import MatmulInput, float_buffer
from edgellm.engine.batch import BatchMemory
from edgellm.engine.cpu import CPUDevice
from edgellm.engine.norm_ops import NormOps
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.outputs import Floats
from edgellm.engine.program import Program
from edgellm.engine.threadpool import ThreadPool
from kquants.jit import Progress
from kquants.records import BatchRecord


def build_encoder_program(encoder: FeatureEncoder) -> Program:
    """The program of one block that reads the taps as x, side by side, and gives the features as logits."""
    width, columns = encoder.projection.weight.shape
    taps = MatmulInput.named("taps", columns)
    program = Program(taps.f32, taps.f32, float_buffer("features", width), page_bytes=[])
    ops = OpWriter(program)
    read = taps
    program.starts.append(0)
    if encoder.norm:
        read = MatmulInput.named("normed_taps", columns)
        NormOps(ops).norm(taps.f32, encoder.norm, read, [encoder.projection])
    else:
        ops.quantize(taps, [encoder.projection])
    ops.linear(read, (encoder.projection, program.logits))
    program.starts.append(len(program.ops))
    return program


class _TapRows:
    """A batch of rows without tokens, positions and pages, whose outputs are all wanted."""

    features: Floats | None = None

    def __init__(self, rows: int) -> None:
        self.rows = self.outputs = rows

    def record(self, pages: int) -> BatchMemory:
        """See `edgellm.engine.batch.Batch`."""
        record = BatchRecord(rows=self.rows, outputs=self.outputs, pages=pages)
        return BatchMemory(array("q", record), array("q"), array("i"))


class EncoderDevice:
    """An encoder made ready for batches of up to `rows` rows, on the threads of `pool`. Raises EdgeLLMError."""

    def __init__(
        self, encoder: FeatureEncoder, *, rows: int, pool: ThreadPool, cache: Path, progress: Progress | None = None
    ) -> None:
        width, self.columns = encoder.projection.weight.shape
        self._cpu = CPUDevice(build_encoder_program(encoder), width, rows, pool.count, cache, progress, pool=pool)

    def encode(self, taps: Floats) -> Floats:
        """The features, float32 [rows, width of the head], of taps, [rows, `columns`]. Raises Stopped."""
        rows = len(taps)
        x = self._cpu.hidden(rows, self.columns)
        x[:] = taps
        features = self._cpu.run(range(1), _TapRows(rows), x)
        assert features is not None, "the only block is the last"
        return np.ascontiguousarray(features)

    def close(self) -> None:
        """Free the memory; the threads go on. Nothing may be running. It can be repeated."""
        self._cpu.close()
