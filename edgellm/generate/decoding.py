"""The token loop: prompt ids in, sampled token ids out."""

import math
from collections.abc import Callable, Generator
from time import perf_counter
from typing import NamedTuple

from edgellm.engine.protocol import Logits
from edgellm.generate.logprobs import SampledLogprob
from edgellm.generate.request import Request
from edgellm.generate.speculative_decoder import SpeculativeDecoder
from edgellm.generate.token_chooser import TokenChooser
from edgellm.speculation.prompt_lookup import PromptLookup


class SampledToken(NamedTuple):
    """A sampled token id, and the logits [vocab] that it was sampled from, before any stage of the sampler.

    A beam search keeps no logits, but what was `scored` with them if that was asked for, and when it chose the token.
    """

    id: int
    logits: Logits | None
    scored: SampledLogprob | None = None
    chosen_at: float | None = None


def generate_ids(
    request: Request,
    chooser: TokenChooser,
    certain: Callable[[], int | None] = lambda: None,
    most: float = math.inf,
) -> Generator[SampledToken, None, None]:
    """Choose tokens without end, on the sequence that the request acquires. Raises Stopped after its `cancel`.

    `certain` tells how many of the sampled tokens certainly stay in the reply, as the others may begin a stop string;
    the sequence can go back to the end of the former. No more than `most` will be taken: no draft goes further.
    """
    session, prompt, timer, cancel = request.session, request.prompt, request.timer, request.cancel
    chooser.read(prompt.ids)
    lookup, generated = PromptLookup(prompt.ids), list[int]()
    with (
        chooser,
        request.computed_prompt() as (sequence, logits),
        SpeculativeDecoder(session, sequence, lookup, cancel, most) as decoder,
    ):
        timer.drafts = decoder.tally
        while True:
            decoder.begin_drafting()
            began = perf_counter()
            token = chooser.choose(logits, len(prompt.ids) + len(generated), decoder.proposal)
            decoder.expect_draw(perf_counter() - began)
            lookup.accept(token)
            generated.append(token)
            yield SampledToken(token, logits)
            if certain() == len(generated) - 1:
                session.hold(sequence, decoder.length, cancel)
            if prompt.context_shift and decoder.length == session.engine.ctx:
                shorter = prompt.context_shift(generated)
                timer.truncation = shorter.truncation
                logits = request.replace_prompt(sequence, shorter.ids)
                decoder.continue_from(shorter.ids)
            else:
                logits = decoder.decode(token, chooser.certain, chooser.rules)
                timer.context_used = decoder.length
