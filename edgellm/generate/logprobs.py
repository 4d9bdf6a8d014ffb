"""Log-probabilities of a sampled token and of the most likely tokens at its position."""

from dataclasses import dataclass

from edgellm.engine.protocol import Logits
from edgellm.sampling.sampler import logprob, top_logprobs
from edgellm.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Logprob:
    """A token, its text (control tokens included), and the natural logarithm of its probability.

    Probabilities are those of the model's own distribution: no option of the sampler changes them.
    """

    id: int
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class SampledLogprob(Logprob):
    """The token that was sampled, and the requested number of most likely tokens, most likely first."""

    top_logprobs: tuple[Logprob, ...]


def sampled_logprob(tokenizer: Tokenizer, logits: Logits, token: int, n_top: int) -> SampledLogprob:
    """The log-probabilities of `token` and of the `n_top` most likely tokens, from logits [vocab].

    Raises EdgeLLMError if a logit is NaN.
    """
    top = top_logprobs(logits, n_top) if n_top else []
    others = tuple(Logprob(i, _text(tokenizer, i), value) for i, value in top)
    return SampledLogprob(token, _text(tokenizer, token), logprob(logits, token), others)


def _text(tokenizer: Tokenizer, token: int) -> str:
    return tokenizer.token_bytes(token, special=True).decode(errors="replace")
