"""Opens both sides of a benchmark and what measures the machine, and warms them up."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from edgellm.arch import describe
from edgellm.arch.description import Description
from edgellm.bench.baseline import Baseline, open_baseline
from edgellm.bench.cold_start import PROMPT_TOKENS, prompt_of
from edgellm.bench.machine_limits import MachineLimits
from edgellm.bench.options import LOAD_NAMES, OURS, BenchOptions
from edgellm.bench.results import BenchResult
from edgellm.bench.rounds import Bench, OnStatus
from edgellm.bench.workload import Workload, warm_up
from edgellm.engine.build_program import build_program
from edgellm.fmt import counted
from edgellm.model import Model
from edgellm.perf.bandwidth import matmul_benchmark, memory_benchmark
from edgellm.perf.roofline import Roofline
from kquants import QUANTIZED_FORMATS
from kquants.jit import Progress
from kquants.records import MatmulOp


@contextmanager
def open_bench(
    path: Path, options: BenchOptions, threads: int, compiling: Progress, on_status: OnStatus
) -> Iterator[Bench]:
    """A benchmark that is ready for its rounds. Raises EdgeLLMError and its subclasses."""
    with ExitStack() as stack:
        load: dict[str, Any] = {"threads": threads} | {name: getattr(options, name) for name in LOAD_NAMES}
        model = stack.enter_context(Model.open(path, progress=compiling, **load))
        description = describe(model.file)
        roofline = Roofline.of(description, options.kv_type)
        result = BenchResult(options, threads, roofline, int8_products(description))
        on_status(f"{counted(threads, 'thread')}: warming up")
        ours = Workload(model.engine, options.depth, options.parallel)
        warm_up(ours, options)
        sides: dict[str, Workload | Baseline] = {OURS: ours}
        if options.against:
            on_status(f"{counted(threads, 'thread')}: opening {options.against}")
            baseline = sides[options.against] = stack.enter_context(open_baseline(path, options, threads))
            result.baseline_version, result.repacked = baseline.version, baseline.repacked
        prompt = prompt_of(model.tokenizer, min(PROMPT_TOKENS, model.ctx - 1))
        read = stack.enter_context(memory_benchmark(threads, progress=compiling))
        multiply = stack.enter_context(matmul_benchmark(threads, roofline.matrix_bytes, progress=compiling))
        yield Bench(path, result, sides, prompt, model.engine, MachineLimits(threads, read, multiply))


def int8_products(model: Description) -> int:
    """Products of quantized weights for a prompt token without logits.

    Such a token ends where the last keys and values are stored. Of experts, those count that a token uses.
    """
    of_all_rows = [op for op in build_program(model, "f16").ops if not op.outputs]
    weights = [(op.arguments.w, op.slots) for op in of_all_rows if isinstance(op.arguments, MatmulOp)]
    return sum(weight.size * slots for weight, slots in weights if weight.type.name in QUANTIZED_FORMATS)
