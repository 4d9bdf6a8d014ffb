"""Beam search on forks: the beams of a request share the pages of what they have in common, and the batches."""

from collections.abc import Generator
from collections.abc import Sequence as Ids

from edgellm.engine.protocol import Logits, Sequence
from edgellm.generate.batching.cancel_flag import CancelFlag
from edgellm.generate.beams import Beam, Beams
from edgellm.generate.decoding import SampledToken
from edgellm.generate.request import Request
from edgellm.generate.results import BeamReply
from edgellm.generate.session import Session


def beam_ids(request: Request, first: Beam, n: int, found: list[BeamReply]) -> Generator[SampledToken, None, None]:
    """The tokens of the best of the replies that a search with `n` beams finds; all of them are added to `found`.

    The search begins with the first token. Raises Stopped after the `cancel` of the request.
    """
    for token in request.prompt.ids:
        first.sampler.accept(token)
    beams, chosen_at = Beams(first, n, len(request.ends)), list[float]()
    with request.computed_prompt() as (sequence, logits):
        _search(request, beams, sequence, logits, chosen_at)
    for beam in beams.ended:
        found.append(BeamReply(beam.output.text, beam.output.tokens, beam.score, beam.finish_reason or ""))
    best = beams.ended[0].output
    for i, token in enumerate(best.tokens):
        yield SampledToken(token, None, best.logprobs[i] if best.logprobs else None, chosen_at[i])


def _search(request: Request, beams: Beams, sequence: Sequence, logits: Logits, chosen_at: list[float]) -> None:
    """Extend beams until they are over. `logits` [vocab] are those of the prompt, which `sequence` has.

    `chosen_at` gets the time of each step. The prefix cache gets the tokens of the best one, for the next prompt.
    """
    session, cancel, timer = request.session, request.cancel, request.timer
    sequences, each_logits = [sequence], [logits]
    best, kept = None, None  # type: Beam | None, Sequence | None
    while True:
        beams.extend(each_logits)
        chosen_at.append(timer.clock())
        if beams.ended and beams.ended[0] is not best:
            best = beams.ended[0]
            parent = sequences[best.parent]
            kept = parent if beams.over else session.exclusively(parent.fork, cancel)
        if beams.over:
            if kept and kept is not sequence:  # which is left to the prefix cache anyway
                session.engine.retire(kept)
            return
        sequences = _continued(session, sequences, [beam.parent for beam in beams.running], cancel)
        each_logits = session.decode_each(sequences, [beam.output.tokens[-1] for beam in beams.running], cancel)
        timer.context_used = len(sequences[0])


def _continued(session: Session, sequences: list[Sequence], parents: Ids[int], cancel: CancelFlag) -> list[Sequence]:
    """A sequence for each beam that continues one of `parents`: that of its parent, or a fork."""

    def fork(i: int, parent: int) -> Sequence:
        return sequences[parent].fork() if parent in parents[:i] else sequences[parent]

    def continued() -> list[Sequence]:
        return [fork(i, parent) for i, parent in enumerate(parents)]

    if len(set(parents)) == len(parents):
        return continued()
    return session.exclusively(continued, cancel)  # a fork counts references to pages
