"""How far quantized models of each family are from exact, with edgellm and with llama.cpp on the same file.

    python -m support.quantized_families [MIX ...]      a table; Q4_K_M and Q8_0 without a MIX

The distance is the mean KL divergence from the logits of the same weights, dequantized, in float32 with float32 pages.
For llama.cpp it is the smaller one of its two attention kernels'. Both engines have float16 pages.
"""

import math
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.engine_bits import fresh, opened
from support.families.files import convert_case, widened
from support.families.references import IDS
from support.families.wide import WIDE_CASES
from support.oracle import llama_cpp_logits
from support.reference import divergence

SOME_IDS = IDS[:160]


class Distances(NamedTuple):
    """Mean KL divergence from exact, in nats."""

    edgellm: float
    llama_cpp: float

    @property
    def ratio(self) -> float:
        """edgellm's distance over llama.cpp's."""
        return self.edgellm / self.llama_cpp


def measure(folder: Path, name: str, mix: str) -> Distances:
    """The distances of one of WIDE_CASES, quantized by edgellm's converter in `folder`."""
    path = convert_case(folder, name, mix)
    truth = _logits(widened(path), "f32")
    theirs = (llama_cpp_logits(path, SOME_IDS, flash_attention=flash) for flash in (False, True))
    return Distances(divergence(truth, _logits(path, "f16")), min(divergence(truth, logits) for logits in theirs))


def geometric_mean(measured: list[Distances]) -> float:
    """The geometric mean of the ratios."""
    return math.exp(sum(math.log(each.ratio) for each in measured) / len(measured))


def _logits(path: Path, kv_type: str) -> NDArray[np.float32]:
    with opened(path, kv_type=kv_type) as engine:
        return fresh(engine, SOME_IDS).view(np.float32)


def main() -> None:
    """Print the table."""
    for mix in sys.argv[1:] or ("Q4_K_M", "Q8_0"):
        measured = []
        for name in WIDE_CASES:
            with tempfile.TemporaryDirectory() as folder:
                measured.append(measure(Path(folder), name, mix))
            line = f"edgellm {measured[-1].edgellm:.2e}  llama.cpp {measured[-1].llama_cpp:.2e}"
            print(f"{mix:8} {name:20} {line}  ratio {measured[-1].ratio:.3f}", flush=True)
        print(f"{mix:8} geometric mean of the ratios {geometric_mean(measured):.3f}", flush=True)


if __name__ == "__main__":
    main()
