"""The tensors that no mix quantizes, and the types they get."""

import re

from converters.quant_mixes.mixes import QuantMix
from converters.tensors import Source
from kquants import FLOAT_FORMATS

_NEVER = re.compile(
    r"_norm\.weight|ffn_gate_inp\.weight|altup|laurel|per_layer_model_proj"
    r"|^position_embd\.weight|^token_types\.weight|attn_rel_b\.weight"
    r"|ssm_conv1d|shortconv\.conv\.weight|time_mix_(first|w[0-2]|v[0-2]|a[0-2]|g[12]|decay_w[12]|lerp_fused)\.weight"
)
"""Matrices that `llama-quantize` leaves as they are (llama-quant.cpp, tensor_allows_quantization)."""

_KEPT = re.compile(r"altup_(proj|unembd_proj|router)\.|laurel_[lr]\.|per_layer_model_proj\.")
"""Those of them that llama.cpp's converter stores in the type asked for; the others are F32."""

_TOKEN_IDS = "d2t"
"""The ids of the tokens that an EAGLE-3 head drafts: whole numbers."""


def is_quantized(source: Source) -> bool:
    """Whether a mix may quantize a tensor. Vectors and norms never are; ggml treats a matrix of one row as a vector."""
    return source.row_count > 1 and source.name.endswith("weight") and not _NEVER.search(source.name)


def unquantized_type(source: Source, mix: QuantMix) -> str:
    """The type of a tensor that is not quantized: F32, for some that of the mix or of the source."""
    if source.name == _TOKEN_IDS:
        return source.type
    if source.row_count == 1 or not _KEPT.search(source.name):
        return "F32"
    if mix.type in FLOAT_FORMATS:
        return mix.type
    return source.type if source.type in FLOAT_FORMATS else "F16"
