"""What a model will take and how fast it will be, told from its file before anything is loaded."""

from dataclasses import dataclass
from typing import Any

from edgellm.arch import describe
from edgellm.bandwidth import Traffic
from edgellm.engine.engine import batch_rows, context
from edgellm.engine.program import build
from edgellm.errors import EdgeLLMError
from edgellm.gauge import decode_tps
from edgellm.gguf import GGUFFile
from edgellm.machine import available_memory, default_threads
from edgellm.options import LoadOptions
from kquants.layout import MOST_TOKENS, PAGE


@dataclass(frozen=True)
class Plan:
    """Where a model's blocks are computed, and the bytes of memory that it takes with a full context.

    `weights` are pages of the mapped file, which the system can take back and read again; `kv_cache` grows with the
    tokens in it; `scratch` is that of all threads, with the logits of one token. `available` is what the machine has
    left. `devices` are as in `Stats`.
    """

    ctx: int
    kv_type: str
    threads: int
    layers: int
    traffic: Traffic
    weights: int
    kv_cache: int
    activations: int
    scratch: int
    available: int
    devices: list[dict[str, Any]]

    @property
    def total(self) -> int:
        """Bytes of memory for everything."""
        return self.weights + self.kv_cache + self.activations + self.scratch

    def decode_tps(self, bandwidth: float, depth: int) -> float | None:
        """Tokens per second to expect; None where the disk would decide. `bandwidth` is in bytes per second."""
        if self.weights > self.available:
            return None
        return decode_tps(self.traffic, self.layers, bandwidth, depth)


def make_plan(file: GGUFFile, options: LoadOptions) -> Plan:
    """The plan for an open file, of which only the header is read.

    Raises UnsupportedModelError, ModelFileError (also for a file without weights), OptionError (a `ctx` above the
    model's) and EdgeLLMError for devices that this version does not have.
    """
    refuse_what_is_missing(options)
    model = describe(file)
    program, ctx = build(model, options.kv_type), context(file, model, options.ctx)
    threads = options.threads or default_threads()
    weights, layers = sum(tensor.nbytes for tensor in file.tensors.values()), len(model.layers)
    return Plan(
        ctx=ctx,
        kv_type=options.kv_type,
        threads=threads,
        layers=layers,
        traffic=Traffic.of(model, options.kv_type),
        weights=weights,
        kv_cache=-(-ctx // PAGE) * program.page_bytes,
        activations=(batch_rows(program, ctx) + MOST_TOKENS) * program.row_bytes,
        scratch=threads * program.scratch_bytes + program.logits.row_bytes,
        available=available_memory(),
        devices=[{"name": "CPU", "blocks": 2 * layers + 1, "bytes": weights}],
    )


def refuse_what_is_missing(options: LoadOptions) -> None:
    """Raises EdgeLLMError for devices that this version does not have."""
    if options.gpu is not None or options.gpu_layers not in ("auto", 0):
        raise EdgeLLMError("this version computes on the CPU alone; leave --gpu out and --gpu-layers at auto or 0")
