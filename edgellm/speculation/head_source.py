"""The source of drafts of a head, for all replies of a session."""

from collections.abc import Sequence as Ids

from edgellm.engine.head_engine import HeadEngine
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Sequence
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.head_drafter import HeadDrafter


def head_source(name: str, engine: HeadEngine, relative_cost: float, pass_bytes: int = 0) -> ComputedSource:
    """The source of an engine whose head follows the sequences of the target; see `ComputedSource`."""

    def drafter(ids: Ids[int], sequence: Sequence) -> HeadDrafter:
        assert isinstance(sequence, PagedSequence)
        return HeadDrafter(engine, ids, engine.state_of(sequence))

    return ComputedSource(name, engine, drafter, relative_cost, pass_bytes)
