"""Starts the generations of an open model, with its options, timer and prefix cache."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from secrets import randbits
from typing import TYPE_CHECKING, Any

from edgellm.errors import OptionError
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.beam_search import beam_ids
from edgellm.generate.beams import Beam
from edgellm.generate.decoding import generate_ids
from edgellm.generate.generation import Generation
from edgellm.generate.prefix_cache import PrefixCache
from edgellm.generate.reply_content import ReplyContent
from edgellm.generate.request import Request, TokensPrompt
from edgellm.generate.session import Session
from edgellm.generate.text_assembler import TextAssembler
from edgellm.generate.timing import PrefillProgress, RequestTimer
from edgellm.generate.token_chooser import TokenChooser
from edgellm.guides.guide import Guide
from edgellm.guides.spec import spec_of
from edgellm.guides.thinking import ReplyStart, gated
from edgellm.options import GenerationOptions
from edgellm.options.definitions import check_beams
from edgellm.perf.mbu import MBUEstimator
from edgellm.sampling.gumbel import DrawKey
from edgellm.sampling.sampler import Sampler
from edgellm.text.reply_format import ReplyReader
from edgellm.text.tokenizer import Tokenizer
from edgellm.tools.collector import CallCollector
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
        check_beams(given)
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
        begins_in_thought: bool = False,
        sequence: int = 0,
    ) -> Generation:
        """Continue a prompt, reusing the longest prefix that `cache` holds.

        `on_end` and `begins_in_thought` are those of `Generation`, `sequence` is that of `DrawKey`. `reader` reads
        the tokens of a reply in that format. `reply_start` is where the reply of a chat begins, `use` are the tools
        that it may call.

        Raises ContextOverflowError, OptionError and EdgeLLMError before anything is computed.
        """
        session, tokenizer = self.session, self.tokenizer
        session.check_fits(prompt.ids)
        if options.beams and prompt.context_shift:
            raise OptionError("option beams and the overflow policy window exclude each other: take stop or drop")
        guide, sampler = self._guide(options, reply_start, use), Sampler(options, session.engine.vocab)
        calls = reader if isinstance(reader, CallCollector) else None
        most = self._most_tokens(prompt, options)
        output = TextAssembler(tokenizer, options, most, reader, guide)
        content = ReplyContent(output, options, guide, calls)
        cancel, ends = CancelFlag(session.engine), tokenizer.eog_ids
        request = Request(session, cache.acquire, prompt, timer, cancel, progress, ends)
        if options.beams and content.beams is not None:
            ids = beam_ids(request, Beam(output, sampler), options.beams, content.beams)
        else:
            seed = randbits(64) if options.seed is None else options.seed
            chooser = TokenChooser(sampler, DrawKey(seed, sequence), guide, timer.guided, session.drafts.rule)
            ids = generate_ids(request, chooser, lambda: output.certain, most)
        return Generation(request, ids, content, tokenizer, on_end, begins_in_thought)

    def _most_tokens(self, prompt: TokensPrompt, options: GenerationOptions) -> float:
        """The most tokens that a reply may have."""
        room = math.inf if prompt.context_shift else self.session.engine.ctx - len(prompt.ids) + 1
        return room if options.max_tokens is None else min(room, options.max_tokens)

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
