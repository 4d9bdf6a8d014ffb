"""The plan of a model with the draft model, or the head, that its options ask for."""

from contextlib import closing
from dataclasses import replace

from edgellm.arch import describe
from edgellm.arch.head import Head
from edgellm.engine.build_program import build_program
from edgellm.engine.feature_encoder import build_encoder_program
from edgellm.engine.head_request import ON_GPU
from edgellm.engine.head_sequence import most_waiting
from edgellm.engine.last_states import KEPT
from edgellm.engine.limits import max_batch_rows
from edgellm.gguf import GGUFFile
from edgellm.options import LoadOptions
from edgellm.perf.plan import DraftModelPlan, Plan, make_plan, plan_of
from edgellm.speculation.auto_draft import open_draft
from edgellm.speculation.draft_file import DraftFile, DraftTarget
from edgellm.speculation.draft_sizes import kv_share, with_kv_share
from edgellm.speculation.head_choice import ChosenHead, open_head, open_in_place_of
from edgellm.text.tokenizer import Tokenizer


def plan_with_draft(file: GGUFFile, options: LoadOptions) -> Plan:
    """The plan for an open file, with that of a draft model or head if `options` ask for one. Only headers are read.

    Raises the errors of `make_plan`, `open_head` and `open_draft`.
    """
    if not options.asks_for_draft_model:
        return make_plan(file, options)
    model, pre = describe(file), options.tokenizer_pre
    target = DraftTarget(file, model, Tokenizer(file, pre), pre)
    if chosen := open_head(options.draft, target):
        with closing(chosen):
            share = kv_share(chosen.head.model, model, options.kv_type)
            own = make_plan(file, with_kv_share(options, 1 - share))
            if not own.gpu:
                head = _head_plan(chosen, target, own, with_kv_share(options, share).kv_memory)
                return replace(own, draft=DraftModelPlan(chosen.name, head))
            draft = open_in_place_of(chosen, options.draft, target, ON_GPU)
    else:
        draft = open_draft(options.draft, target)
    if draft is None:
        return make_plan(file, replace(options, draft=None))
    with draft:
        share = kv_share(draft.model, model, options.kv_type)
        own = make_plan(file, with_kv_share(options, 1 - share))
        return replace(own, draft=DraftModelPlan(draft.name, _plan(draft, with_kv_share(options, share), own)))


def _plan(draft: DraftFile, options: LoadOptions, target: Plan) -> Plan:
    """The plan of a draft model: on the CPU, with the threads of its target, for texts that are no longer."""
    ctx = min(target.ctx, draft.model.context_length)
    return make_plan(draft.file, _beside(target, ctx, options.kv_memory))


def _head_plan(chosen: ChosenHead, target: DraftTarget, own: Plan, kv_memory: float | None) -> Plan:
    """The plan of a head. The weights of one in the target's file are among those of the target already."""
    head, file = chosen.head, chosen.file.file if chosen.file else target.file
    weights = sum(tensor.nbytes for tensor in file.tensors.values()) if chosen.file else 0
    plan = plan_of(head.model, file, weights, _beside(own, own.ctx, kv_memory))
    return replace(plan, activations=plan.activations + _feature_bytes(head, target, own))


def _feature_bytes(head: Head, target: DraftTarget, own: Plan) -> int:
    """Bytes of the features that wait, and of what encodes them."""
    row_bytes = 4 * target.model.width * max(1, len(head.taps))
    most = KEPT if head.model.target_attention else most_waiting(row_bytes)
    waiting = row_bytes * min(own.ctx, most)
    if not head.encoder:
        return waiting
    rows = max_batch_rows(build_program(head.model, own.kv_type, ctx=own.ctx), own.ctx)
    return waiting + build_encoder_program(head.encoder).activation_bytes(rows)


def _beside(target: Plan, ctx: int, kv_memory: float | None) -> LoadOptions:
    """The options of what drafts for a target: on the CPU, with its threads."""
    return LoadOptions(threads=target.threads, ctx=ctx, gpu_layers=0, kv_type=target.kv_type, kv_memory=kv_memory)
