"""From sampled tokens to text: detokenizing, stop strings, the finish reason, log-probabilities."""

from copy import copy, deepcopy

from edgellm.generate.decoding import SampledToken
from edgellm.generate.logprobs import Logprob, SampledLogprob, sampled_logprob
from edgellm.generate.stop_strings import StopStrings
from edgellm.guides.guide import Guide
from edgellm.options import GenerationOptions
from edgellm.text.detokenizer import IncrementalDetokenizer
from edgellm.text.reply_format import ReplyReader
from edgellm.text.tokenizer import Tokenizer


class TextAssembler:
    """The text, token ids and log-probabilities of one generation so far."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        options: GenerationOptions,
        max_tokens: float,
        reader: ReplyReader | None = None,
        guide: Guide | None = None,
    ) -> None:
        """`reader` reads the tokens of a reply in that format; the stop strings are then those of its result.

        `guide` says where the answer begins, and that it ends without a token for it. `certain` counts the tokens
        before the first one whose text is held back as a possible stop string. `answer_start` is the index in the text
        of the first character of a guided answer, None before it.
        """
        self.text = ""
        self.answer_start: int | None = None
        self.tokens: list[int] = []
        self.certain = 0
        self.logprobs: list[SampledLogprob] | None = None if options.logprobs is False else []
        self._n_top = 0 if isinstance(options.logprobs, bool) else options.logprobs
        self._tokenizer, self._special, self._max_tokens = tokenizer, options.special, max_tokens
        self._detokenizer, self._reader = IncrementalDetokenizer(tokenizer, options.special), reader
        self._guide = guide
        self._stops = StopStrings(options.stop, {} if options.special else _hidden_tokens(tokenizer))

    @property
    def full(self) -> bool:
        """Whether the generation has all the tokens that it may have."""
        return len(self.tokens) == self._max_tokens

    def score(self, sampled: SampledToken) -> tuple[float | None, tuple[Logprob, ...]]:
        """The log-probability of a token and the most likely ones, (None, ()) unless requested."""
        if self.logprobs is None:
            return None, ()
        scored = sampled.scored
        if scored is None:
            assert sampled.logits is not None, "a token has its logits, or what was scored with them"
            scored = sampled_logprob(self._tokenizer, sampled.logits, sampled.id, self._n_top)
        self.logprobs.append(scored)
        return scored.logprob, scored.top_logprobs

    def fork(self) -> "TextAssembler":
        """Another one with the same text so far, of a reply without a guide."""
        child = copy(self)
        child.tokens, child.logprobs = list(self.tokens), None if self.logprobs is None else list(self.logprobs)
        child._detokenizer, child._stops = self._detokenizer.fork(), copy(self._stops)
        child._reader = deepcopy(self._reader)  # it has texts alone
        return child

    def push(self, token: int) -> tuple[str, str | None]:
        """Append a token: returns the text that became certain with it, and the finish reason or None."""
        self.tokens.append(token)
        if self._guide and self._guide.begun and self.answer_start is None:
            self.answer_start = len(self.text)
        decoded = self._decoded(token)
        text = self._stops.push(decoded, token)
        if len(self._stops.held_back) <= len(decoded):  # nothing, or a part of what this token completes
            self.certain = len(self.tokens) - bool(self._stops.held_back)
        reason = self._finish_reason(token)
        if reason and not self._stops.found:
            text += self._stops.push(self._read(self._detokenizer.flush())) + self._rest()
        self.text += text
        return text, reason

    def flush(self) -> None:
        """Append the text that was held back, as a possible beginning of a stop string or header of a message."""
        self.text += self._rest()

    def _decoded(self, token: int) -> str:
        """The text that a token completes."""
        mark = self._reader.marks.get(token) if self._reader else None
        if self._reader and mark:
            return self._read(self._detokenizer.flush()) + self._reader.mark(mark)
        hidden = token in self._tokenizer.eog_ids and not self._special
        text = "" if hidden else self._detokenizer.push(token)
        if self._guide and not self._guide.begun and not text:
            text = self._end_of_thought(token)
        return self._read(text)

    def _end_of_thought(self, token: int) -> str:
        """The incomplete character before a mark without a text: the answer must not begin with it."""
        return "" if self._tokenizer.token_bytes(token) else self._detokenizer.flush()

    def _read(self, text: str) -> str:
        return self._reader.text(text) if self._reader else text

    def _rest(self) -> str:
        rest = self._stops.push(self._reader.flush()) if self._reader and not self._stops.found else ""
        return rest + self._stops.flush()

    def _finish_reason(self, token: int) -> str | None:
        ended = (self._reader and self._reader.ended) or (self._guide and self._guide.ended)
        if token in self._tokenizer.eog_ids or ended:
            return "eog"
        if self._stops.found:
            return "stop"
        return "length" if self.full else None


def _hidden_tokens(tokenizer: Tokenizer) -> dict[str, int]:
    """The ids, by text, of the tokens that leave no text unless `special` is set."""
    ends = {tokenizer.token_bytes(i, special=True).decode(errors="replace"): i for i in tokenizer.eog_ids}
    return {**tokenizer.control_texts, **ends}
