"""Hunyuan (Tencent) with experts: Hunyuan-A13B. As the dense models; a shared expert computes all tokens."""

from dataclasses import replace

from edgellm.arch.architectures import hunyuan_dense
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.positions import RopeType
from edgellm.arch.routers import normalized_softmax
from edgellm.arch.tensor_names import (
    ATTENTION,
    ATTENTION_TENSORS,
    EXPERT_TENSORS,
    PRE_NORM_TENSORS,
    ROUTER,
    SHARED_EXPERT_TENSORS,
)

FACTS = ArchitectureFacts(
    name="hunyuan-moe",
    rope_type=RopeType.NEOX,
    block_tensors=(
        *ATTENTION_TENSORS,
        *PRE_NORM_TENSORS,
        *hunyuan_dense.HEAD_NORMS,
        replace(ROUTER, hugging_face="mlp.gate.wg"),
        *EXPERT_TENSORS,
        *(
            replace(each, hugging_face=f"mlp.shared_mlp.{name}")
            for each, name in zip(SHARED_EXPERT_TENSORS, ("gate_proj", "up_proj", "down_proj"), strict=True)
        ),
    ),
    optional_biases=ATTENTION,
    norm_after_rope=True,
    router=normalized_softmax,
    checkpoints=(
        CheckpointClass(
            name="HunYuanMoEV1ForCausalLM",
            defaults={"rms_norm_eps": 1e-5, "num_experts": 1, "moe_topk": 1},
            bias_keys={"attention_bias": ATTENTION},
        ),
    ),
    writes_head_dim=False,
)
