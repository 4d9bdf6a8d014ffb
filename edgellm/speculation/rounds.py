"""Rounds of passes: the drafts of all replies whose steps the next batch of the target computes."""

from collections.abc import Iterator
from collections.abc import Sequence as Ids
from itertools import zip_longest
from time import perf_counter
from typing import Any

from edgellm.engine.outputs import Outputs
from edgellm.engine.protocol import Segment, Stopped
from edgellm.errors import NoMemoryError
from edgellm.options import MAX_DRAFT
from edgellm.speculation.drafting import Drafting

Part = tuple[Drafting, Segment[Any]]


def draft_round(draftings: Ids[Drafting], rows: int, most_rows: int) -> None:
    """Compute the drafts of replies that share a batch, which has `rows` rows without them, and `most_rows` at most.

    A pass computes a token for each reply that goes on; all have drafters of one source. A cancel of all of them ends
    the round without drafts.
    """
    room = (most_rows - rows) // len(draftings)
    active = [each for each in draftings if each.begin(room)]
    try:
        while active and _goes_on(draftings, active, rows):
            active = [each for part in _passes(active) for each in _compute(part)]
    except Stopped:
        return
    _trim(draftings, rows)


def _goes_on(draftings: Ids[Drafting], active: Ids[Drafting], rows: int) -> bool:
    """Whether another pass of those that are `active` is worth its time."""
    if any(each.must_go_on for each in active):
        return True
    chances = [chance for each in draftings for chance in each.chances]
    beyond = zip_longest(*(each.beyond(MAX_DRAFT) for each in active))
    passes = [[chance for chance in each if chance is not None] for each in beyond]
    fixed = sum(each.fixed for each in draftings)
    return active[0].policy.goes_on(_rate(draftings), rows + fixed, active[0].plan.pass_seconds, chances, passes)


def _rate(draftings: Ids[Drafting]) -> float:
    return sum(each.plan.rate for each in draftings) / len(draftings)


def _trim(draftings: Ids[Drafting], rows: int) -> None:
    """Keep the drafts that give the most tokens for the time of the batch: the likeliest of all replies.

    The chance of a draft is at most that of the one before it, so those of each reply are its first ones.
    """
    for each in draftings:
        each.kept = each.fixed
    chances = [(chance, i) for i, each in enumerate(draftings) for chance in each.chances]
    if chances:
        rows += sum(each.fixed for each in draftings)
        count = draftings[0].policy.kept(_rate(draftings), rows, [chance for chance, _ in chances])
        for _, i in sorted(chances, key=lambda each: -each[0])[:count]:
            draftings[i].kept += 1


def _passes(active: Ids[Drafting]) -> Iterator[list[Part]]:
    """The segments of the next pass, in parts that are no larger than the batches of the engine."""
    most, batch, rows = active[0].source.engine.max_rows, list[Part](), 0
    parts = [(each, segment) for each in active if (segment := each.segment())]
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
    """Compute a part of a pass; gives those that go on.

    Where memory is short for all, each is computed alone, the shortest first: one that fails leaves its memory.
    """
    source, began = parts[0][0].source, perf_counter()
    try:
        outputs = source.compute([segment for _, segment in parts])
    except Stopped:
        raise
    except Exception as error:
        if isinstance(error, NoMemoryError | MemoryError) and len(parts) > 1:
            for part in sorted(parts, key=lambda each: len(each[1].sequence)):
                yield from _compute([part])
            return
        for each, _ in parts:
            each.fail(error)
        return
    row_s = (perf_counter() - began) / sum(len(segment.tokens) for _, segment in parts)
    row = wanted = 0
    for each, segment in parts:
        ends = row + len(segment.tokens), wanted + len(segment.wanted)
        if each.take(_rows_of(outputs, slice(row, ends[0]), slice(wanted, ends[1])), row_s * len(segment.tokens)):
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
