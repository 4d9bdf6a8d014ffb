"""Loads the draft model of an open model, and gives its engine to the session when it is there."""

from weakref import ref

from edgellm.arch.description import Description
from edgellm.engine.budget import KVBudget
from edgellm.engine.native_engine import NativeEngine
from edgellm.generate.session import Session
from edgellm.options import LoadOptions
from edgellm.perf.machine_profile import load_profile
from edgellm.perf.roofline import Roofline, relative_cost
from edgellm.speculation.computed_source import ComputedSource
from edgellm.speculation.draft_file import DraftFile
from edgellm.speculation.draft_model import DraftModel
from edgellm.speculation.model_drafter import ModelDrafter


def load_draft(
    draft: DraftFile, session: Session, engine: NativeEngine, target: Description, options: LoadOptions
) -> DraftModel:
    """Load a draft model in the background; replies draft with it from then on. `options` are those of the target.

    Raises NoMemoryError if its weights do not fit in memory beside those of the target.
    """
    draft.check_memory(engine.devices[0]["bytes"])
    found, cost = ref(session), _cost(draft.model, target, options.kv_type, engine.threads)

    def attach(own: NativeEngine) -> None:
        source = ComputedSource(draft.name, own, lambda ids, _: ModelDrafter(own, ids, draft.tokens), cost)
        if session := found():
            session.drafts.source = source

    return DraftModel(draft, engine.pool, engine.ctx, options.kv_type, KVBudget.of(options.kv_memory), attach)


def _cost(draft: Description, target: Description, kv_type: str, threads: int) -> float:
    """The time of a draft relative to a step of the target, until both are measured."""
    own, other = ((Roofline.of(model, kv_type), len(model.layers)) for model in (draft, target))
    return relative_cost(own, other, load_profile(threads), threads)
