"""Tiny models of the dense families: configurations, random weights, and what `transformers` computes of them.

case          what a case holds; gemma, llama, phi and others are the table
checkpoint    the weights, drawn from their names, and the files of a checkpoint
references    the stored logits of `transformers`; `support.make_family_references` writes them
"""

from support.families.case import FamilyCase
from support.families.gemma import GEMMA_CASES
from support.families.gpt_oss import GPT_OSS_CASES
from support.families.llama import LLAMA_CASES
from support.families.others import OTHER_CASES
from support.families.phi import PHI_CASES

__all__ = ["CASES", "FamilyCase"]

CASES: dict[str, FamilyCase] = {**LLAMA_CASES, **GEMMA_CASES, **PHI_CASES, **OTHER_CASES, **GPT_OSS_CASES}
