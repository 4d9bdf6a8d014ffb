"""From the tensors of a layer to its latent attention. The GGUF stem of a tensor says what it is:

attn_q                              the projection of q; models with a low rank have attn_q_a, attn_q_a_norm, attn_q_b
attn_kv_a_mqa, attn_kv_a_norm       the projection to the key, and the norm of its latent
attn_k_b, attn_v_b                  a matrix for each head, see `edgellm.arch.latent_attention.LatentAttention`
attn_output                         the projection behind attention
"""

from dataclasses import replace

from edgellm.arch.blocks import Norm
from edgellm.arch.latent_attention import LatentAttention
from edgellm.arch.layers import LayerReader
from edgellm.arch.refuse import refuse

_LATENT_EPS = 1e-6
"""The epsilon of the norms of latents. It is that of DeepSeek's own code and of transformers, whatever the epsilon of
the other norms; GGUF has no key for it, and llama.cpp takes that of the others."""


def read_latent_attention(reader: LayerReader) -> LatentAttention:
    """The latent attention of a layer. Raises ModelFileError and UnsupportedModelError."""
    if reader.has("attn_kv_b"):
        problem = "has the matrix attn_kv_b of older conversions, which cannot be computed on latents"
        refuse(reader.tensors.file, f"{problem}; get a newer conversion of the model, with attn_k_b and attn_v_b")
    is_low_rank = reader.sizes.q_rank > 0
    return LatentAttention(
        **vars(reader.settings),
        norm=reader.required_norm("attn_norm"),
        q_a=reader.required("attn_q_a") if is_low_rank else None,
        q_norm=_latent_norm(reader, "attn_q_a_norm") if is_low_rank else None,
        q=reader.required("attn_q_b" if is_low_rank else "attn_q"),
        kv=reader.required("attn_kv_a_mqa"),
        kv_norm=_latent_norm(reader, "attn_kv_a_norm"),
        k_absorbed=reader.stack("attn_k_b"),
        v=reader.stack("attn_v_b"),
        output=reader.required("attn_output"),
    )


def _latent_norm(reader: LayerReader, stem: str) -> Norm:
    return replace(reader.required_norm(stem), eps=_LATENT_EPS)
