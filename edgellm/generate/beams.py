"""The beams of a search: replies that are extended side by side, and the best of those that have ended.

The rules are those of `generate(num_beams=N)` in transformers with its defaults, `length_penalty=1.0` and
`early_stopping=False`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from edgellm.engine.protocol import Logits
from edgellm.generate.decoding import SampledToken
from edgellm.generate.text_assembler import TextAssembler
from edgellm.sampling.sampler import Sampler, top_logprobs


@dataclass(frozen=True)
class Beam:
    """A reply so far; `total` is the natural logarithm of its probability, behind bias and penalties.

    `parent` is the index, among the beams that ran before its last token, of the one that it continues.
    """

    output: TextAssembler
    sampler: Sampler
    total: float = 0.0
    finish_reason: str | None = None
    parent: int = 0

    @property
    def score(self) -> float:
        """The logarithm of the probability, divided by the number of tokens, with that of the end."""
        return self.total / len(self.output.tokens)

    def extended(self, token: int, total: float, logits: Logits, own: int) -> "Beam":
        """The beam, of index `own`, with one token more, which was chosen from `logits` [vocab]."""
        output, sampler = self.output.fork(), self.sampler.fork()
        output.score(SampledToken(token, logits))
        _, finish_reason = output.push(token)
        sampler.accept(token)
        return Beam(output, sampler, total, finish_reason, own)


class Beams:
    """Up to `n` beams that are `running`, and up to `n` that have `ended`; both the best first.

    Ties: the earlier beam, then the lower token id. `ends` is the number of tokens that end a reply.
    """

    def __init__(self, first: Beam, n: int, ends: int) -> None:
        self.running, self.ended, self._n = [first], list[Beam](), n
        self._continuations = n + ends  # the most of one beam that matter: `n` may run, and others end

    def extend(self, logits: Sequence[Logits]) -> None:
        """Add a token to each beam; `logits` [vocab] are those of each running one.

        Of all continuations, the `n` likeliest that do not end run on. One that ends is kept if it is among the `n`
        likeliest.
        """
        running, ended = list[Beam](), self.ended
        for rank, (total, parent, token) in enumerate(self._ranked(logits)):
            if len(running) == self._n or (rank == self._n and not running):  # if none runs on, no other one is better
                break
            beam = self.running[parent].extended(token, total, logits[parent], parent)
            if beam.finish_reason is None:
                running.append(beam)
            elif rank < self._n:
                ended = [*ended, beam]
        self.running, self.ended = running, list(islice(sorted(ended, key=lambda beam: -beam.score), self._n))

    @property
    def over(self) -> bool:
        """Whether `n` beams have ended, and none that runs has a better score than each of them, or none runs at all.

        With more tokens its score may still rise, which is not waited for.
        """
        if not self.running:
            return True
        return len(self.ended) == self._n and self.running[0].score <= self.ended[-1].score

    def _ranked(self, logits: Sequence[Logits]) -> list[tuple[float, int, int]]:
        """The likeliest continuations, best first: the logarithm of the probability, the beam, the token."""
        found = [
            (beam.total + logprob, i, token)
            for i, beam in enumerate(self.running)
            for token, logprob in top_logprobs(beam.sampler.adjusted(logits[i]), self._continuations)
        ]
        return sorted(found, key=lambda continuation: -continuation[0])
