"""What the rounds of a benchmark measured."""

from dataclasses import dataclass, field
from typing import Any

from edgellm.bench.options import BenchOptions
from edgellm.perf.roofline import Roofline


@dataclass(frozen=True)
class SideTimes:
    """Seconds of one side (edgellm or the baseline) in one round; None for what was not measured."""

    prefill: float | None = None
    decode: float | None = None
    cold_start: float | None = None


@dataclass(frozen=True)
class DecodeSlice:
    """`steps` decode steps after `before` others, with the seconds of each side by its name.

    `bandwidth` is the memory bandwidth around them, in bytes per second.
    """

    steps: int
    before: int
    bandwidth: float
    seconds: dict[str, float]


@dataclass(frozen=True)
class Round:
    """One round: the machine's limits (bytes and int8 products per second), and the times of each side by its name.

    `slices` are the decode steps in parts. The round is `undisturbed` if no other program took the CPU from the
    threads that measured the machine.
    """

    bandwidth: float
    int8_peak: float
    undisturbed: bool
    times: dict[str, SideTimes]
    slices: list[DecodeSlice] = field(default_factory=list)


@dataclass
class BenchResult:
    """All complete rounds with one number of threads, and what their speed is compared with.

    `int8_products` is the number of int8 products in the layers for one prompt token, 0 if the model is not quantized.
    `repacked` tells whether the baseline computes with repacked weights. `devices` has, for "prefill" and "decode", the
    figures of each device in the last round (see `edgellm.bench.devices`), if a GPU takes part.
    """

    options: BenchOptions
    threads: int
    roofline: Roofline
    int8_products: int
    baseline_version: str | None = None
    repacked: bool | None = None
    rounds: list[Round] = field(default_factory=list)
    devices: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
