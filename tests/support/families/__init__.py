"""Tiny models of the families: configurations, random weights, and what `transformers` computes of them.

case          what a case holds; gemma, llama, phi, experts, latent, mixtures, sparse, hybrids and others are the table
checkpoint    the weights, drawn from their names, and the files of a checkpoint
references    the stored logits of `transformers`; `support.make_family_references` writes them
"""

from support.families.case import FamilyCase
from support.families.experts import EXPERT_CASES
from support.families.gemma import GEMMA_CASES
from support.families.gpt_oss import GPT_OSS_CASES
from support.families.hybrids import HYBRID_CASES
from support.families.latent import LATENT_CASES
from support.families.llama import LLAMA_CASES
from support.families.mixtures import MIXTURE_CASES
from support.families.others import OTHER_CASES
from support.families.phi import PHI_CASES
from support.families.sparse import SPARSE_CASES

__all__ = ["CASES", "FamilyCase"]

CASES: dict[str, FamilyCase] = {
    **LLAMA_CASES,
    **GEMMA_CASES,
    **GPT_OSS_CASES,
    **PHI_CASES,
    **OTHER_CASES,
    **EXPERT_CASES,
    **LATENT_CASES,
    **MIXTURE_CASES,
    **SPARSE_CASES,
    **HYBRID_CASES,
}
