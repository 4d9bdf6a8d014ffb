"""The plan of a model with the draft model that its options ask for."""

from dataclasses import replace

from edgellm.arch import describe
from edgellm.gguf import GGUFFile
from edgellm.options import LoadOptions
from edgellm.perf.plan import DraftModelPlan, Plan, make_plan
from edgellm.speculation.auto_draft import open_draft
from edgellm.speculation.draft_file import DraftFile, DraftTarget
from edgellm.text.tokenizer import Tokenizer


def plan_with_draft(file: GGUFFile, options: LoadOptions) -> Plan:
    """The plan for an open file, with that of a draft model if `options` ask for one. Only headers are read.

    Raises the errors of `make_plan` and `open_draft`.
    """
    if not options.asks_for_draft_model:
        return make_plan(file, options)
    model, pre = describe(file), options.tokenizer_pre
    draft = open_draft(options.draft, DraftTarget(file, model, Tokenizer(file, pre), pre))
    if draft is None:
        return make_plan(file, replace(options, draft=None))
    with draft:
        share = draft.kv_share(model, options.kv_type)
        own = make_plan(file, with_kv_share(options, 1 - share))
        return replace(own, draft=DraftModelPlan(draft.name, _plan(draft, with_kv_share(options, share), own)))


def with_kv_share(options: LoadOptions, share: float) -> LoadOptions:
    """Options whose `kv_memory` is a share of what the user allowed."""
    return options if options.kv_memory is None else replace(options, kv_memory=options.kv_memory * share)


def _plan(draft: DraftFile, options: LoadOptions, target: Plan) -> Plan:
    """The plan of a draft model: on the CPU, with the threads of its target, for texts that are no longer."""
    ctx = min(target.ctx, draft.model.context_length)
    return make_plan(
        draft.file,
        LoadOptions(
            threads=target.threads, ctx=ctx, gpu_layers=0, kv_type=options.kv_type, kv_memory=options.kv_memory
        ),
    )
