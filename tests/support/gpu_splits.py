"""How near every split between CPU and GPU comes to the exact logits: `python -m support.gpu_splits MODEL...`.

For each number of layers on the GPU, and for the output head as well, the logits of a text are computed in chunks and
then token by token. Printed is their KL divergence to the float64 truth beside that of the CPU alone, the ratio of the
two, and whether greedy text is the same as the CPU's up to the first token of which the CPU is not sure.
"""

import sys
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.offload import OffloadRequest
from edgellm.engine.protocol import Segment
from edgellm.gguf import GGUFFile
from edgellm.text.tokenizer import Tokenizer
from support.gpus import engine_on
from support.reference import divergence, reference_logits

TEXT = "Once upon a time there was a little girl named Lily. She had a computer that ran language models of its own."
SURE = 0.5
"""How far apart the CPU's two best logits are where it is sure of a token."""

Logits = NDArray[np.float32]


@dataclass(frozen=True)
class Split:
    """So many layers on the GPU, the blocks that it takes of them, divergences, and where greedy text differs."""

    layers: int
    blocks: int
    to_truth: float
    to_cpu: float
    differs: int | None


@dataclass(frozen=True)
class Splits:
    """All of a file; `cpu` is the divergence of the CPU alone to the truth, `sure` the tokens of which it is sure."""

    cpu: float
    sure: int
    each: list[Split]

    @property
    def ratio(self) -> float:
        """The geometric mean over the splits of their divergence as a share of the CPU's."""
        return exp(sum(log(split.to_truth / self.cpu) for split in self.each) / len(self.each))


def measure(path: Path, chunk: int = 24, single: int = 12, greedy: int = 24) -> Splits:
    """Measure every split of a file with a tokenizer; the last `single` tokens of the text are computed one by one."""
    with GGUFFile.open(path) as file:
        ids = Tokenizer(file).encode(TEXT, add_special=True)
        truth, layers = reference_logits(path, ids), file.get_int(f"{file.architecture}.block_count")
        found = []
        for n in range(layers + 2):
            engine = engine_on(file, n, ctx=256, offload=OffloadRequest(n))
            blocks = sum(device["blocks"] for device in engine.devices[1:])
            found.append((blocks, _logits(engine, ids, chunk, single), _greedy(engine, ids, greedy)))
            engine.close()
    _, cpu, (text, gaps) = found[0]
    each = [
        Split(n, blocks, divergence(truth, logits), divergence(cpu, logits), _first_other(text, other))
        for n, (blocks, logits, (other, _)) in enumerate(found[1:], 1)
    ]
    sure = next((i for i, gap in enumerate(gaps) if gap < SURE), greedy)
    return Splits(divergence(truth, cpu), sure, each)


def _logits(engine: NativeEngine, ids: list[int], chunk: int, single: int) -> Logits:
    sequence, parts = engine.new_sequence(), []
    ends = [*range(chunk, len(ids) - single, chunk), *range(len(ids) - single, len(ids) + 1)]
    for start, end in zip([0, *ends], ends, strict=False):
        parts.append(engine.forward([Segment(sequence, ids[start:end], range(end - start))]))
    return np.concatenate(parts)


def _greedy(engine: NativeEngine, ids: list[int], n: int) -> tuple[list[int], list[float]]:
    """The likeliest tokens behind a text, and how far ahead of the next one each was."""
    sequence, tokens, gaps = engine.new_sequence(), list[int](), list[float]()
    given = ids[: len(ids) // 2]
    for _ in range(n):
        (row,) = engine.forward([Segment(sequence, given, [len(given) - 1])])
        second, first = np.partition(row, -2)[-2:]
        gaps.append(float(first - second))
        tokens.append(int(row.argmax()))
        given = tokens[-1:]
    return tokens, gaps


def _first_other(one: list[int], other: list[int]) -> int | None:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), None)


def main() -> None:
    """Measure the files that are named."""
    for path in map(Path, sys.argv[1:]):
        splits = measure(path)
        print(f"{path.name}: CPU {splits.cpu:.2e}, sure of {splits.sure} tokens; ratio {splits.ratio:.3f}")
        print("  layers  blocks  to truth  ratio  to CPU    text")
        for split in splits.each:
            text = "the same" if split.differs is None else f"another from token {split.differs} on"
            figures = f"{split.to_truth:.2e}  {split.to_truth / splits.cpu:5.3f}  {split.to_cpu:.2e}"
            print(f"  {split.layers:6}  {split.blocks:6}  {figures}  {text}", flush=True)


if __name__ == "__main__":
    main()
