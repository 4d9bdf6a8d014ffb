"""Rounds of passes: the drafts of all replies whose steps the next batch of the target computes."""

from collections.abc import Iterator
from collections.abc import Sequence as Ids
from itertools import accumulate
from time import perf_counter
from typing import Any

from edgellm.engine.outputs import Outputs
from edgellm.engine.protocol import Segment, Stopped
from edgellm.engine.step_times import StepTimes
from edgellm.errors import EdgeLLMError
from edgellm.speculation.drafting import Drafting

Part = tuple[Drafting, Segment[Any]]


def draft_round(draftings: Ids[Drafting], rows: int, most_rows: int, times: StepTimes) -> None:
    """Compute the drafts of replies that share a batch, which has `rows` rows without them, and `most_rows` at most.

    A pass computes a token for each reply that goes on; all have drafters of one source. A cancel of all of them ends
    the round without drafts.
    """
    room = (most_rows - rows) // len(draftings)
    active = [each for each in draftings if each.begin(room)]
    try:
        while active:
            active = [each for part in _passes(active) for each in _compute(part)]
    except Stopped:
        return
    _trim([each for each in draftings if each.draft.tokens], rows, times)


def _trim(draftings: Ids[Drafting], rows: int, times: StepTimes) -> None:
    """Keep the drafts that give the most tokens for the time of the batch: the likeliest of all replies.

    The chance of a draft is at most that of the one before it, so those of each reply are its first ones.
    """
    if not draftings:
        return
    chances = sorted(((chance, i) for i, each in enumerate(draftings) for chance in each.chances), key=lambda x: -x[0])
    rate = sum(each.plan.rate for each in draftings) / len(draftings)
    sums = accumulate((chance for chance, _ in chances), initial=0.0)
    values = [tokens - rate * (times.wagered_seconds(rows + n) or 0.0) for n, tokens in enumerate(sums)]
    for _, i in chances[: values.index(max(values))]:
        draftings[i].kept += 1


def _passes(active: Ids[Drafting]) -> Iterator[list[Part]]:
    """The segments of the next pass, in parts that are no larger than the batches of the engine."""
    most, batch, rows = active[0].source.engine.max_rows, list[Part](), 0
    parts = [(each, segment) for each in active if (segment := each.drafter.segment())]
    for part in parts:
        tokens = len(part[1].tokens)
        if batch and rows + tokens > most:
            yield batch
            batch, rows = [], 0
        batch.append(part)
        rows += tokens
    if batch:
        yield batch


def _compute(parts: list[Part]) -> Iterator[Drafting]:
    """Compute a part of a pass; gives those that go on."""
    source, began = parts[0][0].source, perf_counter()
    try:
        outputs = source.compute([segment for _, segment in parts])
    except EdgeLLMError as error:
        for each, _ in parts:
            each.fail(error)
        return
    seconds = (perf_counter() - began) / len(parts)
    row = wanted = 0
    for each, segment in parts:
        ends = row + len(segment.tokens), wanted + len(segment.wanted)
        if each.take(_rows_of(outputs, slice(row, ends[0]), slice(wanted, ends[1])), seconds):
            yield each
        row, wanted = ends


def _rows_of(outputs: Outputs, rows: slice, wanted: slice) -> Outputs:
    """The outputs of some rows of a batch."""
    return outputs._replace(
        logits=None if outputs.logits is None else outputs.logits[wanted],
        hidden=None if outputs.hidden is None else outputs.hidden[wanted],
        residual=None if outputs.residual is None else outputs.residual[wanted],
        taps={layer: each[rows] for layer, each in outputs.taps.items()},
    )
