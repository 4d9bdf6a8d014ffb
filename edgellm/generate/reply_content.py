"""What a reply has so far: text, calls of tools, and the answer of one that is held to a form."""

from typing import Any

from edgellm.errors import AnswerError, IncompleteOutputError
from edgellm.fmt import counted
from edgellm.generate.results import BeamReply, Completion
from edgellm.generate.stats import Stats
from edgellm.generate.text_assembler import TextAssembler
from edgellm.guides.guide import Guide
from edgellm.options import GenerationOptions
from edgellm.tools.calls import BrokenCall, ToolCall
from edgellm.tools.collector import CallCollector


class ReplyContent:
    """The content of a reply, whose text is that of `output`.

    `guide` holds it to a form, `calls` collects its calls; both are None for free text. `beams` are the hypotheses of
    a beam search, best first, once it has ended; None without one.
    """

    def __init__(
        self, output: TextAssembler, options: GenerationOptions, guide: Guide | None, calls: CallCollector | None
    ) -> None:
        self.output, self._guide, self._calls = output, guide, calls
        self._partial, self._json_schema = options.partial, options.json_schema
        self._form = options.form is not None
        self.beams: list[BeamReply] | None = [] if options.beams else None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of tools so far, which are no part of the text."""
        return tuple(self._calls.calls) if self._calls else ()

    @property
    def broken_calls(self) -> tuple[BrokenCall, ...]:
        """The calls so far that do not parse."""
        return tuple(self._calls.broken) if self._calls else ()

    @property
    def answer(self) -> str | None:
        """The text of a reply that is held to a form, without what the model thinks; None for a free reply."""
        if not self._form:
            return None
        start = self.output.answer_start
        return "" if start is None else self.output.text[start:]

    @property
    def thinking(self) -> bool:
        """Whether a reply that is held to a form has not begun its answer."""
        return bool(self._form and self._guide and not self._guide.begun)

    def check_complete(self, reason: str, stats: Stats, dropped: int) -> None:
        """Raises IncompleteOutputError if a reply that must conform was cut off, unless that is allowed."""
        if reason != "length" or self._partial or not self._form:
            return
        if self._guide is None or self._guide.complete:
            return
        problem = f"the reply was cut off after {counted(len(self.output.tokens), 'token')}, before it conforms"
        advice = "allow it more tokens ({max_tokens}) or a larger context ({ctx}), or take it as it is ({partial})"
        raise IncompleteOutputError(problem, advice, self._completion(reason, stats, dropped, None))

    def completion(self, reason: str, stats: Stats, dropped: int) -> Completion:
        """The completion of a reply that has ended; `dropped` counts tokens of the conversation that it did not see.

        Raises AnswerError if the class of the schema refuses the answer; it has the reply as `completion`.
        """
        try:
            return self._completion(reason, stats, dropped, self._parsed())
        except AnswerError as error:
            error.completion = self._completion(reason, stats, dropped, None)
            raise

    def _completion(self, reason: str, stats: Stats, dropped: int, parsed: Any) -> Completion:
        output = self.output
        return Completion(
            output.text,
            output.tokens,
            reason,
            stats,
            dropped,
            output.logprobs,
            self.answer,
            parsed,
            self.tool_calls,
            self.broken_calls,
            None if self.beams is None else tuple(self.beams),
        )

    def _parsed(self) -> Any:
        """The value of an answer to a JSON schema, None for an incomplete one."""
        if self._json_schema is None or not (self._guide and self._guide.complete):
            return None
        from edgellm.guides.parsed import parsed  # imports what reads classes

        return parsed(self._json_schema, self.answer or "")
