"""The source of drafts of a head, for all replies of a session."""

from collections.abc import Sequence as Ids

from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Sequence
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.head_drafter import HeadDrafter


def head_source(name: str, target: NativeEngine, relative_cost: float, pass_bytes: int = 0) -> ComputedSource:
    """The source of the head that follows the sequences of a target, as long as it works; see `ComputedSource`."""
    engine = target.draft_head
    assert engine, "the target was opened with a head"

    def drafter(ids: Ids[int], sequence: Sequence) -> HeadDrafter:
        assert isinstance(sequence, PagedSequence)
        return HeadDrafter(engine, ids, engine.state_of(sequence))

    return ComputedSource(name, engine, drafter, relative_cost, pass_bytes, target.stop_following)
