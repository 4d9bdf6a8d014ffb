"""LFM2 with experts: LFM2-8B-A1B. As `lfm2`, but layers behind the first have experts, chosen by biased sigmoids."""

from dataclasses import replace

from edgellm.arch.architectures.lfm2 import LFM2_DEFAULTS, LFM2_TENSORS, attention, recurrent
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.routers import normalized_keyed_router
from edgellm.arch.tensor_names import EXPERT_TENSORS, FUSED_EXPERTS, ROUTER, SELECTION_BIAS

_DEFAULTS = {
    **LFM2_DEFAULTS,
    "intermediate_size": 7168,
    "moe_intermediate_size": 1792,
    "num_dense_layers": 2,
    "num_experts": 32,
    "num_experts_per_tok": 4,
    "use_expert_bias": True,
}

FACTS = ArchitectureFacts(
    name="lfm2moe",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *LFM2_TENSORS,
        replace(ROUTER, hugging_face="feed_forward.gate"),
        replace(SELECTION_BIAS, hugging_face="feed_forward.expert_bias"),
        *(
            replace(each, hugging_face=f"feed_forward.experts.*.{name}")
            for each, name in zip(EXPERT_TENSORS, ("w1", "w3", "w2"), strict=True)
        ),
    ),
    fused_tensors=tuple(
        replace(each, hugging_face=each.hugging_face.replace("mlp.", "feed_forward.")) for each in FUSED_EXPERTS
    ),
    output_norm_stem="token_embd_norm",
    output_norm_name="embedding_norm",
    attention=attention,
    recurrent=recurrent,
    router=normalized_keyed_router,
    checkpoints=(CheckpointClass(name="Lfm2MoeForCausalLM", defaults=_DEFAULTS),),
    writes_head_dim=False,
)
