"""Granite (IBM) with experts: Granite 3 1B-A400M and 3B-A800M, PowerMoE, and models with a shared expert.

As Granite, but the feed-forward of each layer is a mixture of experts, whose weights add up to 1.
"""

from dataclasses import replace

from edgellm.arch.architectures.granite import SCALE_DEFAULTS, attention, settings
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
    FusedTensor,
)

_GATE, _UP, _DOWN = EXPERT_TENSORS
_SHARED_GATE, _SHARED_UP, _SHARED_DOWN = SHARED_EXPERT_TENSORS
EXPERT_DEFAULTS: dict[str, object] = {**SCALE_DEFAULTS, "num_local_experts": 8, "num_experts_per_tok": 2}
"""Defaults of transformers for all classes of Granite with experts."""

FACTS = ArchitectureFacts(
    name="granitemoe",
    rope_type=RopeType.NORM,
    block_tensors=(
        *ATTENTION_TENSORS,
        *PRE_NORM_TENSORS,
        replace(ROUTER, hugging_face="block_sparse_moe.router.layer"),
        replace(_GATE, hugging_face=None),
        replace(_UP, hugging_face=None),
        replace(_DOWN, hugging_face="block_sparse_moe.output_linear"),
        replace(_SHARED_GATE, hugging_face=None, optional=True),
        replace(_SHARED_UP, hugging_face=None, optional=True),
        replace(_SHARED_DOWN, hugging_face="shared_mlp.output_linear", optional=True),
    ),
    fused_tensors=(
        FusedTensor("block_sparse_moe.input_linear", ("ffn_gate_exps", "ffn_up_exps")),
        FusedTensor("shared_mlp.input_linear", ("ffn_gate_shexp", "ffn_up_shexp"), stacked=False),
    ),
    optional_biases=ATTENTION,
    attention=attention,
    router=normalized_softmax,
    settings=settings,
    checkpoints=tuple(
        CheckpointClass(name=name, defaults=EXPERT_DEFAULTS, bias_keys={"attention_bias": ATTENTION})
        for name in ("GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM")
    ),
    writes_head_dim=False,
    writes_vocab_size=True,
)
