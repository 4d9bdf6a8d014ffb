"""What a model will take and how fast it will be, told from its file before anything is loaded."""

from dataclasses import dataclass
from typing import Any

from edgellm.arch import describe
from edgellm.bandwidth import Traffic, decode_tps
from edgellm.engine.engine import batch_rows, context
from edgellm.engine.program import build
from edgellm.errors import EdgeLLMError
from edgellm.gguf import GGUFFile
from edgellm.machine import available_memory, default_threads
from edgellm.options import LoadOptions
from kquants.layout import MOST_TOKENS, PAGE

PARTS = ("weights", "kv_cache", "activations", "scratch")
"""What memory is taken for; the names of these figures of a plan."""


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

    @property
    def from_disk(self) -> bool:
        """Whether not even the weights fit: then every token reads the disk."""
        return self.weights > self.available

    def figures(self, bandwidth: float | None) -> dict[str, Any]:
        """What `edgellm plan --json` prints, with the speed that `bandwidth` (bytes per second) lets expect.

        `decode` has tokens per second with nothing before them and with a full context; it is None where the
        bandwidth is, and where the disk would decide.
        """
        parts = {name: getattr(self, name) for name in (*PARTS, "total", "available")}
        speeds = None
        if bandwidth and not self.from_disk:
            tps, tps_full = (decode_tps(self.traffic, self.layers, bandwidth, depth) for depth in (0, self.ctx - 1))
            speeds = {"tps": tps, "tps_full": tps_full}
        return {
            "ctx": self.ctx,
            "kv_type": self.kv_type,
            "threads": self.threads,
            "memory": parts,
            "fits": self.total <= self.available,
            "devices": self.devices,
            "bandwidth": bandwidth,
            "decode": speeds,
        }


def make_plan(file: GGUFFile, options: LoadOptions) -> Plan:
    """The plan for an open file, of which only the header is read.

    Raises UnsupportedModelError, ModelFileError (also for a file without weights), OptionError (a `ctx` above the
    model's) and EdgeLLMError for devices that this version does not have.
    """
    refuse_what_is_missing(options)
    model = describe(file)
    program, ctx = build(model, options.kv_type), context(file, model, options.ctx)
    rows = batch_rows(program, ctx) + MOST_TOKENS
    threads = options.threads or default_threads(file.nbytes)
    weights = sum(tensor.nbytes for tensor in file.tensors.values())
    return Plan(
        ctx=ctx,
        kv_type=options.kv_type,
        threads=threads,
        layers=len(model.layers),
        traffic=Traffic.of(model, options.kv_type),
        weights=weights,
        kv_cache=-(-ctx // PAGE) * program.page_bytes,
        activations=sum((b.rows or rows) * b.row_bytes for b in program.buffers if b != program.logits),
        scratch=threads * program.scratch_bytes + program.logits.row_bytes,
        available=available_memory(),
        devices=[{"name": "CPU", "blocks": 2 * len(model.layers) + 1, "bytes": weights}],
    )


def refuse_what_is_missing(options: LoadOptions) -> None:
    """Raises EdgeLLMError for devices that this version does not have."""
    if options.gpu is not None or options.gpu_layers not in ("auto", 0):
        raise EdgeLLMError("this version computes on the CPU alone; leave --gpu out and --gpu-layers at auto or 0")
