"""Starts the generations of an open model, with its options, timer and prefix cache."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from edgellm.generate.decoding import TokensPrompt
from edgellm.generate.generation import Generation
from edgellm.generate.prefix_cache import PrefixCache
from edgellm.generate.session import Session
from edgellm.generate.timing import PrefillProgress, RequestTimer
from edgellm.guides.guide import Guide
from edgellm.guides.spec import spec_of
from edgellm.guides.thinking import ReplyStart, gated, is_thought
from edgellm.options import GenerationOptions
from edgellm.perf.mbu import MBUEstimator
from edgellm.text.reply_format import ReplyReader
from edgellm.text.tokenizer import Tokenizer
from edgellm.tools.use import ToolUse

if TYPE_CHECKING:
    from edgellm.guides.compile import GuideCompiler  # imports llguidance, which only guided replies need


@dataclass
class Generator:
    """Starts generations of one open model.

    `defaults` are the file's own sampling options. `mbu_estimator` is None for llama.cpp and with a GPU.
    """

    session: Session
    tokenizer: Tokenizer
    defaults: Mapping[str, object]
    mbu_estimator: MBUEstimator | None

    def options(self, **given: Any) -> GenerationOptions:
        """The given options, then those of the file, then edgellm's defaults. Raises OptionError."""
        return GenerationOptions.from_kwargs(self.defaults, **given)

    def start_timer(self) -> RequestTimer:
        """The timer of a request that begins now. Raises EdgeLLMError if the model was closed."""
        self.session.check_open()
        engine = self.session.engine
        return RequestTimer(lambda: engine.devices, mbu_estimator=self.mbu_estimator)

    def start(
        self,
        prompt: TokensPrompt,
        options: GenerationOptions,
        timer: RequestTimer,
        cache: PrefixCache,
        progress: PrefillProgress | None = None,
        on_end: Callable[[str], None] = lambda text: None,
        reader: ReplyReader | None = None,
        reply_start: ReplyStart | None = None,
        use: ToolUse | None = None,
        sequence: int = 0,
    ) -> Generation:
        """Continue a prompt, reusing the longest prefix that `cache` holds.

        `on_end`, `reader` and `sequence` are those of `Generation`. `reply_start` is where the reply of a chat begins,
        `use` are the tools that it may call.

        Raises ContextOverflowError, OptionError and EdgeLLMError before anything is computed.
        """
        session, tokenizer = self.session, self.tokenizer
        guide = self._guide(options, reply_start, use)
        acquire, inside = (
            partial(cache.acquire, ends=tokenizer.eog_ids),
            bool(reply_start and not reply_start.begun and is_thought(reply_start, tokenizer)),
        )
        return Generation(
            session, tokenizer, acquire, prompt, options, timer, progress, on_end, reader, guide, inside, sequence
        )

    def _guide(self, options: GenerationOptions, start: ReplyStart | None, use: ToolUse | None) -> Guide | None:
        """The guide of a reply, None for free text. Raises OptionError."""
        spec, limit, vocab = spec_of(options), options.think_max, self.session.engine.vocab
        if use and start and spec is None:
            from edgellm.generate.call_guides import call_guide  # imports numpy and what compiles grammars

            return call_guide(use, self._compiler.compile, start, limit, self.tokenizer, vocab)
        answer = self._compiler.compile(spec)() if spec else None
        return gated(answer, start, limit, self.tokenizer, vocab)

    @cached_property
    def _compiler(self) -> "GuideCompiler":
        from edgellm.guides.compile import GuideCompiler

        return GuideCompiler(self.tokenizer, self.session.engine.vocab)
