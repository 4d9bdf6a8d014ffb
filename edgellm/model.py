"""`edgellm.Model`: open a GGUF file, stream text, chat, get logits."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, Unpack, cast, overload

import numpy as np
from numpy.typing import NDArray

from edgellm.arch import describe
from edgellm.arch.unsupported import check_holds_model
from edgellm.arguments import ChatArguments, GenerationArguments, LoadArguments
from edgellm.engine import protocol
from edgellm.engine.kv_stats import KVStats
from edgellm.engine.offload import UploadProgress, expert_option_note
from edgellm.engine.outputs import LOGITS, OutputSettings
from edgellm.errors import EdgeLLMWarning, OptionError
from edgellm.fmt import shown_path
from edgellm.generate.all_logits import all_logits, checked_ids
from edgellm.generate.batching.schedule import SLO_ITL
from edgellm.generate.draft_loading import DraftLoading
from edgellm.generate.engines import check_engine, open_engine, speed_warnings
from edgellm.generate.generation import Generation
from edgellm.generate.generator import Generator
from edgellm.generate.prefix_cache import PrefixCache
from edgellm.generate.prefix_stats import PrefixStats
from edgellm.generate.request import TokensPrompt
from edgellm.generate.results import Completion
from edgellm.generate.session import Session
from edgellm.generate.timing import PrefillProgress
from edgellm.gguf import GGUFFile, sigbus
from edgellm.gguf.page_cache import resident_bytes
from edgellm.models import resolve
from edgellm.options import LoadOptions, check_text, file_defaults, validate
from edgellm.options.checks import integer, number, one_of
from edgellm.perf.mbu import MBUEstimator
from edgellm.speculation.session_drafts import SessionDrafts
from edgellm.text.tokenizer import Tokenizer
from kquants.jit import Progress

if TYPE_CHECKING:
    from edgellm.chat import Chat
    from edgellm.generate.async_generation import AsyncGeneration


Prompt = str | Sequence[int]
"""Text to continue, or its token ids."""
Prompts = list[str] | list[list[int]] | tuple[str, ...]


class Model:
    """An open model; use it as a context manager or call `close`.

    Several threads may share it: their requests are computed together, batch by batch.
    """

    def __init__(
        self,
        file: GGUFFile,
        options: LoadOptions,
        progress: Progress | None = None,
        uploading: UploadProgress | None = None,
        outputs: OutputSettings = LOGITS,
        schedule: str = "srpt",
        slo_itl: float = SLO_ITL,
    ) -> None:
        self.file = file
        # First, so that an unsupported architecture is reported before a problem of its tokenizer.
        model = describe(file) if options.engine == "edgellm" else None
        self.tokenizer = Tokenizer(file, options.tokenizer_pre)
        name = shown_path(file.path)
        defaults, problems = file_defaults(file.metadata)
        problems += [note] if model and (note := expert_option_note(model, options)) else []
        for problem in problems:
            warnings.warn(f"{name}: {problem}", EdgeLLMWarning, stacklevel=3)
        self._draft = loading = DraftLoading(file, model, self.tokenizer, options)
        engine: protocol.Engine | None = None
        try:
            engine = open_engine(file, loading.options, progress, uploading, outputs, loading.head)
            session = Session(engine, name, schedule, slo_itl)
            loading.begin(session, engine)
            file.check()
        except BaseException:
            loading.close()
            if engine:
                engine.close()
            raise
        on_cpu = model and len(engine.devices) == 1  # a GPU does not read the memory that the MBU is about
        estimator = MBUEstimator(file, model, options.kv_type, engine.threads) if model and on_cpu else None
        self._generator = Generator(session, self.tokenizer, defaults, estimator)
        self._prefix_cache = PrefixCache(session)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        progress: Progress | None = None,
        uploading: UploadProgress | None = None,
        outputs: OutputSettings = LOGITS,
        schedule: Literal["srpt", "fcfs"] = "srpt",
        slo_itl: float = SLO_ITL,
        **options: Unpack[LoadArguments],
    ) -> Self:
        """Open a GGUF file for generation: a path or, as text, also a name that the commands take as MODEL.

        Options (all of them: `edgellm.options.LoadOptions`):
        `threads` (default: physical performance cores), `ctx` (default: the model's), `kv_type` ("f16", "f32" or
        "q8_0"), `kv_memory` (most GB of keys and values; default: the free memory), `gpu_layers`, `gpu`, `gpu_memory`,
        `gpu_strict`, `cpu_ffn`, `cpu_moe`, `n_cpu_moe`, `engine`, `tokenizer_pre`, and `draft` (a smaller model or
        head that drafts the next tokens, "auto" or "off"), `draft_max`, `draft_rule`. `progress(done, total)` is called
        while kernels are compiled, which happens once per machine, `uploading(done, total)` while bytes are copied to a
        GPU. `outputs` are what edgellm's own engine gives besides logits, which generation needs. `schedule` is the
        order of prompts that wait: "srpt", the shortest first unless another has waited, or "fcfs", as they came.
        `slo_itl` are the seconds that a batch may take while replies are decoded: prompts get what their steps leave,
        and three times that while several prompts wait.

        Warns (EdgeLLMWarning) if the file is larger than the free memory, if `threads` exceeds the CPUs, if the GPU
        cannot do what the options ask for, or if there is no draft model for "auto".

        Raises OptionError, ModelFileError, UnsupportedModelError, EdgeLLMError.
        """
        chosen = LoadOptions.from_kwargs(**options)
        check_text("path", str(path) if isinstance(path, os.PathLike) else path)
        check_engine(chosen, outputs)
        validate("schedule", one_of("srpt", "fcfs"), schedule)
        validate("slo_itl", number(0, 3600, above=True), slo_itl)
        sigbus.install()
        file = GGUFFile.open(resolve(path) if isinstance(path, str) else path)
        try:
            check_holds_model(file)
            for warning in speed_warnings(file, chosen):
                warnings.warn(warning, EdgeLLMWarning, stacklevel=2)
            return cls(file, chosen, progress, uploading, outputs, schedule, slo_itl)
        except BaseException:
            file.close()
            raise

    def __repr__(self) -> str:
        session = self._generator.session
        return f"<edgellm.Model {session.name}, {'closed' if session.closed else f'context {self.ctx}'}>"

    @property
    def weights_in_memory(self) -> tuple[int | None, int]:
        """Bytes of the file's weights that are in memory now, None if the system does not tell, and bytes of all."""
        tensors = self.file.tensors.values()
        return resident_bytes(tensors), sum(tensor.nbytes for tensor in tensors)

    @property
    def ctx(self) -> int:
        """The context length: the largest number of tokens of a prompt and its reply together."""
        return self.engine.ctx

    @property
    def drafts_with(self) -> str | None:
        """What drafts for replies, a draft model or head; None without one, before it is loaded, or after an error."""
        source = self._generator.session.drafts.source
        return source.name if source and source.works else None

    def drafts(self) -> SessionDrafts:
        """What replies share of their drafts, once the draft model is loaded, for measurements."""
        self._draft.wait()
        return self._generator.session.drafts

    @property
    def sampling_defaults(self) -> Mapping[str, object]:
        """The sampling options that the file sets (`general.sampling.*`)."""
        return self._generator.defaults

    @property
    def prefix_stats(self) -> PrefixStats:
        """How much of all prompts so far was cached."""
        return replace(self._generator.session.prefix_stats)

    def expected_ttft(self, prompt_tokens: int) -> float:
        """Seconds until the first token of a request that comes now, with a prompt of that many tokens.

        They are those of all prompts that wait and of its own, none of it cached, at the measured speed. 0.0 until a
        prompt was computed.
        """
        return self._generator.session.expected_ttft(prompt_tokens)

    @property
    def kv_stats(self) -> KVStats:
        """How many KV pages there are, and what they are used for. It waits for the batch that is computed."""
        return self._generator.session.kv_stats

    @property
    def engine(self) -> protocol.Engine:
        """The engine that computes. Only one thread may use it at a time, and only while nothing is generated."""
        return self._generator.session.engine

    def stream(
        self,
        prompt: Prompt,
        *,
        progress: PrefillProgress | None = None,
        **options: Unpack[GenerationArguments],
    ) -> Generation:
        """Continue `prompt`, token by token: returns an iterator of `Token` that any thread can cancel.

        The prompt is text, or token ids, which are taken as they are: no BOS is added.

        Options are those of `edgellm.options.GenerationOptions`: `max_tokens`, `temp`, `top_k`, `top_p`,
        `min_p`, `repeat_penalty`, `presence_penalty`, `frequency_penalty`, `penalty_last_n` (number of last tokens that
        are penalized; -1 for all), `logit_bias`, `seed`, `stop`, `special`, `logprobs` (a number N adds those of the N
        most likely tokens). Options that are not given come from the file's `general.sampling.*`, then from edgellm.

        Raises OptionError, ContextOverflowError for a prompt that does not fit, EdgeLLMError for an empty one.
        """
        return self._stream(prompt, options, progress)

    def _stream(
        self,
        prompt: Prompt,
        options: GenerationArguments,
        progress: PrefillProgress | None = None,
        sequence: int = 0,
    ) -> Generation:
        generator = self._generator
        timer, chosen = generator.start_timer(), generator.options(**options)
        ids = self._ids(prompt, chosen.special)
        return generator.start(TokensPrompt(ids), chosen, timer, self._prefix_cache, progress, sequence=sequence)

    def _ids(self, prompt: Prompt, special: bool) -> list[int]:
        """The token ids of a prompt. Raises OptionError for other values, and for an id that the model lacks."""
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt, add_special=True, parse_special=special)
        if not isinstance(prompt, Sequence | np.ndarray) or isinstance(prompt, bytes):
            check_text("prompt", prompt)
        ids, vocab = checked_ids(prompt), self.engine.vocab
        for token in ids:
            if not 0 <= token < vocab:
                raise OptionError(f"prompt has the token {token}: give ids from 0 to {vocab - 1}")
        return ids

    def astream(self, prompt: Prompt, **options: Unpack[GenerationArguments]) -> "AsyncGeneration":
        """As `stream`, for `asyncio`: `async for token in model.astream(…)`. Errors come with the first token."""
        from edgellm.generate.async_generation import AsyncGeneration  # imports asyncio

        return AsyncGeneration(lambda: self._stream(prompt, options))

    @overload
    def generate(self, prompt: Prompt, **options: Unpack[GenerationArguments]) -> Completion: ...

    @overload
    def generate(self, prompt: Prompt, *, n: int, **options: Unpack[GenerationArguments]) -> list[Completion]: ...

    @overload
    def generate(self, prompt: Prompts, *, n: int = 1, **options: Unpack[GenerationArguments]) -> list[Completion]: ...

    def generate(
        self, prompt: Prompt | Prompts, *, n: int | None = None, **options: Unpack[GenerationArguments]
    ) -> Completion | list[Completion]:
        """The whole continuation of `prompt`; options and errors are those of `stream`.

        A list of prompts gives a list of their continuations, in the order of the prompts; all are generated at once.
        `n` gives a list of `n` continuations of each prompt, those of the first prompt first. With a seed they differ,
        and the first is that of `n=1`. After an error the others are cancelled.

        `beams` searches for the most likely continuation, see `edgellm.generate.beams`; all that were found are in
        `Completion.beams`. Raises OptionError with `temp` above 0, `n` above 1, a form or `think_max`.
        """
        options.setdefault("logprobs", False)
        count = validate("n", integer(1, 1000), 1 if n is None else n)
        if count > 1 and options.get("beams") is not None:
            raise OptionError("option n cannot go with option beams, which gives several replies itself: give one")
        prompts = _prompts(prompt)
        if prompts is None and n is None:
            return self._stream(cast("Prompt", prompt), options).completion()
        from edgellm.generate.at_once import complete_all  # imports what starts threads, which `stream` does not need

        each_of = [cast("Prompt", prompt)] if prompts is None else prompts
        return complete_all([partial(self._stream, one, options, sequence=i) for one in each_of for i in range(count)])

    def chat(self, system: str | None = None, **options: Unpack[ChatArguments]) -> "Chat":
        """A conversation in the model's own chat template. `options` are those of `stream`, for every reply, and:

        `template` (Jinja2 source, or the name of a built-in template), `template_args`, and `overflow`, the policy for
        a conversation that is longer than the context (`edgellm.options.ChatOptions`): "stop", "drop" or "window".

        Raises EdgeLLMError if the file has no chat template and none is given.
        """
        from edgellm.chat import Chat  # imports what starts processes, which `stream` does not need

        return Chat(self._generator, system, **options)

    def logits(self, token_ids: Sequence[int], chunk: int | None = None) -> NDArray[np.float32]:
        """The logits of every position: float32 [n_tokens, n_vocab]. Later calls are not affected.

        `chunk` is the number of tokens computed at once; with edgellm's own engine it changes no bit. Raises
        EdgeLLMError for an unknown token id, OptionError for no tokens and for a `chunk` below 1,
        ContextOverflowError, NoMemoryError.
        """
        return all_logits(self._generator.session, token_ids, chunk)

    def close(self) -> None:
        """Stop all computations, in any thread, then free the threads, the memory and the file.

        If interrupted it can be called again. Further calls do nothing.
        """
        if not self._generator.session.closed:
            self._generator.session.close()
        self._draft.close()
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()


def _prompts(prompt: Prompt | Prompts) -> list[Prompt] | None:
    """The prompts in a list of them; None for a single prompt."""
    if not isinstance(prompt, list | tuple) or (prompt and isinstance(prompt[0], int | np.integer)):
        return None
    return cast("list[Prompt]", list(prompt))
