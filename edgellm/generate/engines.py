"""Opens the engine that the load options name, and warns of options that make it slow."""

from collections.abc import Iterator

from edgellm.arch import describe
from edgellm.engine import protocol
from edgellm.engine.budget import KVBudget
from edgellm.engine.head_request import HeadRequest
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.offload import OffloadRequest, UploadProgress
from edgellm.engine.outputs import LOGITS, OutputSettings
from edgellm.errors import EdgeLLMError, UnsupportedModelError
from edgellm.fmt import shown_path, size
from edgellm.gguf import GGUFFile
from edgellm.options import LoadOptions
from edgellm.perf.disk import DiskForecast, forecast
from edgellm.perf.roofline import Roofline
from edgellm.system.folders import cache_folder
from edgellm.system.machine import available_memory, default_threads, usable_cpus
from kquants.jit import Progress


def check_engine(options: LoadOptions, outputs: OutputSettings) -> None:
    """Raises EdgeLLMError for options and outputs that llama.cpp does not have."""
    if options.engine != "llama.cpp":
        return
    if outputs != LOGITS:
        raise EdgeLLMError("engine llama.cpp gives logits alone; leave outputs out, or choose engine edgellm")
    if options.gpu is not None or options.gpu_layers not in ("auto", 0):
        raise EdgeLLMError("engine llama.cpp computes on the CPU alone; leave --gpu and --gpu-layers out")
    if options.kv_memory is not None:
        advice = "leave --kv-memory out, and choose a smaller --ctx instead"
        raise EdgeLLMError(f"engine llama.cpp takes the KV cache of a full context at once; {advice}")
    if options.asks_for_draft_model:
        raise EdgeLLMError("engine llama.cpp has no draft model here; leave --draft out, or choose engine edgellm")
    if useless := options.draft_option:
        advice = f"leave option {useless} out, or choose engine edgellm"
        raise EdgeLLMError(f"engine llama.cpp drafts nothing here; {advice}")


def speed_warnings(file: GGUFFile, options: LoadOptions) -> Iterator[str]:
    """A line for each choice that makes the model slower than it could be on this machine."""
    free = available_memory()
    if file.nbytes > free and (disk := _disk_forecast(file, options, free)):
        has = f"{shown_path(file.path)} has {size(file.nbytes)}, but only {size(free)} of memory are free"
        yield f"{has}: {_at_disk_speed(disk)}; choose a smaller quantization"
    if options.threads and options.threads > (cpus := usable_cpus()):
        have, best = "1 CPU" if cpus == 1 else f"{cpus:g} CPUs", default_threads(file.nbytes)
        yield f"{options.threads} threads share {have} here, and wait for each other: choose {best}"


def _disk_forecast(file: GGUFFile, options: LoadOptions, free: int) -> DiskForecast | None:
    """The forecast for the CPU. For a model that only llama.cpp may compute, it takes it that all weights are read."""
    try:
        roofline = Roofline.of(describe(file), options.kv_type)
    except UnsupportedModelError:
        roofline = Roofline(file.nbytes, {}, {})
    return forecast(file.path, roofline, free)


def _at_disk_speed(disk: DiskForecast) -> str:
    """What to expect of a model that is larger than the free memory."""
    if disk.tps is None:
        return "it will run at the speed of the disk"
    return f"{size(round(disk.bytes_per_token))} of each token come from the disk, about {disk.tps:,.1f} tokens/s"


def open_engine(
    file: GGUFFile,
    options: LoadOptions,
    progress: Progress | None,
    uploading: UploadProgress | None,
    outputs: OutputSettings = LOGITS,
    draft_head: HeadRequest | None = None,
) -> protocol.Engine:
    """The engine that `options` name, with the model of the file and the head `draft_head`, after `check_engine`."""
    threads = options.threads or default_threads(file.nbytes)
    if options.engine == "llama.cpp":
        from edgellm.llamacpp.engine import LlamaCppEngine  # imports what starts child processes

        return LlamaCppEngine(file, threads=threads, ctx=options.ctx, kv_type=options.kv_type)
    return NativeEngine(
        file,
        threads=threads,
        ctx=options.ctx,
        kv_type=options.kv_type,
        cache=cache_folder(),
        budget=KVBudget.of(options.kv_memory),
        progress=progress,
        offload=OffloadRequest.of(options),
        uploading=uploading,
        outputs=outputs,
        draft_head=draft_head,
    )
