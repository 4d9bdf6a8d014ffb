"""The log-probabilities that a model gave a token, and those that it gave others in its place."""

from dataclasses import dataclass

from edgellm.engine.protocol import Logits
from edgellm.sampling.sampler import likeliest, logprob
from edgellm.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token, its text (that of a control token, too), and the logarithm of its probability.

    Probabilities are those of the model's own distribution: no option of the sampler changes them.
    """

    id: int
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Scored(Candidate):
    """A token that was generated, and the likeliest ones at its place, the likeliest first: as many as were wanted."""

    top_logprobs: tuple[Candidate, ...]


def scored(tokenizer: Tokenizer, logits: Logits, token: int, most: int) -> Scored:
    """The token that was chosen, and the `most` likeliest, by logits [vocab]. Raises EdgeLLMError if one is NaN."""
    top = tuple(Candidate(i, _text(tokenizer, i), value) for i, value in likeliest(logits, most)) if most else ()
    return Scored(token, _text(tokenizer, token), logprob(logits, token), top)


def _text(tokenizer: Tokenizer, token: int) -> str:
    return tokenizer.token_bytes(token, special=True).decode(errors="replace")
