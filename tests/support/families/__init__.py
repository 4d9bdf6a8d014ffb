"""Tiny models of the families: configurations, random weights, and what `transformers` computes of them.

case          what a case holds; gemma, llama, qwen_moe, deepseek and others are the table
checkpoint    the weights, drawn from their names, and the files of a checkpoint
references    the stored logits of `transformers`; `support.make_family_references` writes them
"""

from support.families.case import FamilyCase
from support.families.cohere_moe import COHERE_MOE_CASES
from support.families.deepseek import DEEPSEEK_CASES
from support.families.gemma import GEMMA_CASES
from support.families.glm_moe import GLM_MOE_CASES
from support.families.gpt_oss import GPT_OSS_CASES
from support.families.kimi import KIMI_CASES
from support.families.lfm import LFM_CASES
from support.families.llama import LLAMA_CASES
from support.families.llama4 import LLAMA4_CASES
from support.families.mamba import MAMBA_CASES
from support.families.mellum_laguna import MELLUM_LAGUNA_CASES
from support.families.nemotron import NEMOTRON_CASES
from support.families.other_moe import OTHER_MOE_CASES
from support.families.others import OTHER_CASES
from support.families.phi import PHI_CASES
from support.families.qwen_hybrid import QWEN_HYBRID_CASES
from support.families.qwen_moe import QWEN_MOE_CASES

__all__ = ["CASES", "FamilyCase"]

CASES: dict[str, FamilyCase] = {
    **LLAMA_CASES,
    **GEMMA_CASES,
    **GPT_OSS_CASES,
    **PHI_CASES,
    **OTHER_CASES,
    **COHERE_MOE_CASES,
    **DEEPSEEK_CASES,
    **GLM_MOE_CASES,
    **KIMI_CASES,
    **LFM_CASES,
    **LLAMA4_CASES,
    **MAMBA_CASES,
    **MELLUM_LAGUNA_CASES,
    **NEMOTRON_CASES,
    **OTHER_MOE_CASES,
    **QWEN_HYBRID_CASES,
    **QWEN_MOE_CASES,
}
