"""The Python face of edgellm: open a model, stream text, chat, get logits."""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from edgellm.arch import describe
from edgellm.arguments import ChatArguments, GenerationArguments, LoadArguments
from edgellm.engine import protocol
from edgellm.engine.budget import KVBudget, check_memory
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.offload import OffloadRequest, UploadProgress
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, OptionError
from edgellm.fmt import printable, size
from edgellm.generate.decoding import Prompt
from edgellm.generate.generation import Completion, Generation
from edgellm.generate.generator import Writer
from edgellm.generate.prefix_cache import Branches
from edgellm.generate.session import Cancel, PrefillProgress, Session
from edgellm.gguf import GGUFFile, sigbus
from edgellm.models import resolve
from edgellm.options import LoadOptions, check_text, file_defaults
from edgellm.perf.mbu import Gauge
from edgellm.system.folders import cache_folder
from edgellm.system.machine import available_memory, default_threads, usable_cpus
from edgellm.text.tokenizer import Tokenizer
from kquants.jit import Progress

if TYPE_CHECKING:
    from edgellm.chat import Chat

_LOGITS_BYTES = 32 << 20
"""Most bytes of logits that one batch of `Model.logits` makes, so that large vocabularies need little memory."""


class Model:
    """An open model; use it as a context manager or call `close`.

    Several threads may share it: their computations queue.
    """

    def __init__(
        self,
        file: GGUFFile,
        options: LoadOptions,
        progress: Progress | None = None,
        uploading: UploadProgress | None = None,
    ) -> None:
        self.file = file
        # First: what cannot be computed is told before anything about its tokenizer.
        model = describe(file) if options.engine == "edgellm" else None
        self.tokenizer = Tokenizer(file, options.tokenizer_pre)
        name = printable(str(file.path), 400)
        defaults, remarks = file_defaults(file.metadata)
        for remark in remarks:
            warnings.warn(f"{name}: {remark}", EdgeLLMWarning, stacklevel=3)
        engine = _engine(file, options, progress, uploading)
        alone = model and len(engine.devices) == 1  # what a GPU reads is no share of the memory's bandwidth
        gauge = Gauge(file, model, options.kv_type, engine.threads) if model and alone else None
        self._writer = Writer(Session(engine, name), self.tokenizer, defaults, gauge)
        self._last = Branches(self._writer.session, most=1)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        progress: Progress | None = None,
        uploading: UploadProgress | None = None,
        **options: Unpack[LoadArguments],
    ) -> Self:
        """Open a GGUF file for generation: a path or, as text, also what commands take as MODEL.

        Options (all of them: `edgellm.options.LoadOptions`):
        `threads` (physical performance cores), `ctx` (the model's), `kv_type` ("f16", "f32" or "q8_0"), `kv_memory`
        (the GB that keys and values may take; else what is free), `gpu_layers`, `gpu`, `gpu_memory`, `gpu_strict`,
        `cpu_ffn`, `engine`, `tokenizer_pre`. `progress(done, total)` is called while kernels are compiled, which
        happens once per machine, `uploading(done, total)` while bytes go to a GPU.

        Warns (EdgeLLMWarning) where the file is larger than the free memory, `threads` more than the CPUs, or the GPU
        cannot do what is asked.

        Raises OptionError, ModelFileError, UnsupportedModelError, EdgeLLMError.
        """
        chosen = LoadOptions.from_kwargs(**options)
        check_text("path", str(path) if isinstance(path, os.PathLike) else path)
        if chosen.engine == "llama.cpp" and (chosen.gpu is not None or chosen.gpu_layers not in ("auto", 0)):
            raise EdgeLLMError("engine llama.cpp computes on the CPU alone; leave --gpu and --gpu-layers out")
        if chosen.engine == "llama.cpp" and chosen.kv_memory is not None:
            advice = "leave --kv-memory out, and choose a smaller --ctx instead"
            raise EdgeLLMError(f"engine llama.cpp takes the KV cache of a full context at once; {advice}")
        sigbus.install()
        file = GGUFFile.open(resolve(path) if isinstance(path, str) else path)
        try:
            for remark in _remarks(file, chosen):
                warnings.warn(remark, EdgeLLMWarning, stacklevel=2)
            model = cls(file, chosen, progress, uploading)
            file.check()
            return model
        except BaseException:
            file.close()
            raise

    def __repr__(self) -> str:
        session = self._writer.session
        return f"<edgellm.Model {session.name}, {'closed' if session.closed else f'context {self.ctx}'}>"

    @property
    def ctx(self) -> int:
        """The most tokens that prompt and reply may have together."""
        return self.engine.ctx

    @property
    def sampling_defaults(self) -> Mapping[str, object]:
        """The options for which the file brings values of its own (`general.sampling.*`)."""
        return self._writer.defaults

    @property
    def engine(self) -> protocol.Engine:
        """What computes. Not for several threads at once, nor while anything of this model generates."""
        return self._writer.session.engine

    def stream(
        self, prompt: str, *, progress: PrefillProgress | None = None, **options: Unpack[GenerationArguments]
    ) -> Generation:
        """Continue `prompt`, token by token: an iterator of `Token` that can be cancelled from any thread.

        Options are those of `edgellm.options.GenerationOptions`: `max_tokens`, `temp`, `top_k`, `top_p`,
        `min_p`, `repeat_penalty`, `presence_penalty`, `frequency_penalty`, `penalty_last_n` (the last tokens that the
        penalties look at; -1 for all), `logit_bias`, `seed`, `stop`, `special`, `logprobs` (a number N: those of the N
        likeliest tokens, too). What is not given comes from the file's `general.sampling.*`, then from edgellm.

        Raises OptionError, ContextOverflowError for a prompt that does not fit, EdgeLLMError for an empty one.
        """
        writer = self._writer
        meter, chosen = writer.meter(), writer.options(**options)
        check_text("prompt", prompt)
        ids = self.tokenizer.encode(prompt, add_special=True, parse_special=chosen.special)
        return writer.start(Prompt(ids), chosen, meter, self._last, progress)

    def generate(self, prompt: str, **options: Unpack[GenerationArguments]) -> Completion:
        """The whole continuation of `prompt`; options and errors are those of `stream`."""
        options.setdefault("logprobs", False)
        return self.stream(prompt, **options).completion()

    def chat(self, system: str | None = None, **options: Unpack[ChatArguments]) -> "Chat":
        """A conversation in the model's own chat template; options as for `stream`, for every reply, and these:

        `template` (its source, or a built-in one's name), `template_args`, and `overflow`, what happens to a
        conversation that outgrows the context (`edgellm.options.ChatOptions`): "stop", "drop" or "window".

        Raises EdgeLLMError if the file has no chat template and none is given.
        """
        from edgellm.chat import Chat  # brings what starts processes, which generating alone does without

        return Chat(self._writer, system, **options)

    def logits(self, token_ids: Sequence[int], chunk: int | None = None) -> NDArray[np.float32]:
        """The logits of every position: float32 [n_tokens, n_vocab]. Leaves no state behind.

        `chunk` is how many tokens are computed at once, and with our engine changes no bit. Raises EdgeLLMError
        for an unknown token id or no tokens, ContextOverflowError, NoMemoryError, OptionError for a `chunk` below 1.
        """
        if chunk is not None and chunk < 1:
            raise OptionError(f"option chunk cannot be {chunk}: give a whole number from 1 on")
        session, ids = self._writer.session, _token_ids(token_ids)
        session.check_open()
        session.check_fits(ids)
        engine = session.engine
        step = min(engine.max_rows, chunk or max(1, _LOGITS_BYTES // (4 * engine.vocab)))
        check_memory(4 * len(ids) * engine.vocab, "logits", "ask for those of fewer tokens at once")
        out = np.empty((len(ids), engine.vocab), np.float32)
        state = engine.new_sequence()
        for start in range(0, len(ids), step):
            part = ids[start : start + step]
            segment = protocol.Segment(state, part, range(len(part)))
            out[start : start + len(part)] = session.forward(segment, Cancel(engine))
        return out

    def close(self) -> None:
        """Stop what is being computed, in any thread, then let go of threads, memory and file."""
        if not self._writer.session.closed:
            self._writer.session.close()
            self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()


def _token_ids(given: Sequence[int]) -> list[int]:
    """Token ids as plain integers; OptionError for anything else, and for none."""
    try:
        ids = list(map(index, given))
    except TypeError:
        raise OptionError("token_ids must be a sequence of whole numbers") from None
    if not ids:
        raise OptionError("token_ids must have at least one id")
    return ids


def _remarks(file: GGUFFile, options: LoadOptions) -> Iterator[str]:
    """What makes a model slow here that could be had otherwise."""
    free = available_memory()
    if file.nbytes > free:
        yield (
            f"{printable(str(file.path), 400)} has {size(file.nbytes)}, but only {size(free)} of memory "
            "are free: it will run at the speed of the disk; choose a smaller quantization"
        )
    if options.threads and options.threads > (cpus := usable_cpus()):
        have, best = "1 CPU" if cpus == 1 else f"{cpus:g} CPUs", default_threads(file.nbytes)
        yield f"{options.threads} threads share {have} here, and wait for each other: choose {best}"


def _engine(
    file: GGUFFile, options: LoadOptions, progress: Progress | None, uploading: UploadProgress | None
) -> protocol.Engine:
    """The engine of the options' name, with the model of the file."""
    threads = options.threads or default_threads(file.nbytes)
    if options.engine == "llama.cpp":
        from edgellm.llamacpp.engine import LlamaCppEngine  # brings what runs child processes

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
    )
