"""The Llama architecture (arXiv 2302.13971, 2307.09288): Llama 1-3, Mistral, SmolLM2, TinyLlama, …

Pre-norm blocks of grouped-query attention and SwiGLU, RMSNorm, rotary positions over neighbouring pairs (the
conversion to GGUF permutes the rows of q and k so), output tied to the embedding where it has no tensor.
"""

from edgellm.arch.description import Attention, Description, FeedForward, Layer
from edgellm.arch.rope import read_rope
from edgellm.arch.tensors import Tensors
from edgellm.errors import UnsupportedModelError
from edgellm.gguf import GGUFFile
from edgellm.gguf.printable import printable

_LIMITS = {
    "embedding_length": 1 << 20,
    "feed_forward_length": 1 << 22,
    "attention.head_count": 1 << 12,
    "block_count": 1 << 12,
    "context_length": 1 << 31,
}


def describe(file: GGUFFile) -> Description:
    """The description of a `llama` file. Raises ModelFileError and UnsupportedModelError."""
    if file.get_int("llama.expert_count", 0) > 0:
        name = printable(str(file.path), 400)
        raise UnsupportedModelError(f"{name}: mixture-of-experts models are not supported yet")
    width, ffn, heads, layers, context_length = (_positive(file, key) for key in _LIMITS)
    kv_heads = file.get_int("llama.attention.head_count_kv", heads)
    head_dim = file.get_int("llama.attention.key_length", width // heads)
    if not 0 < kv_heads <= heads or heads % kv_heads:
        file.fail(f"{heads} attention heads cannot share {kv_heads} KV heads; get another conversion of the model")
    if not 0 < head_dim <= 1024 or file.get_int("llama.attention.value_length", head_dim) != head_dim:
        file.fail("heads whose keys and values differ in size, or are empty, or above 1024, are not a Llama's")
    rope_dims = file.get_int("llama.rope.dimension_count", head_dim)
    if not 0 < rope_dims <= head_dim:
        file.fail(f"llama.rope.dimension_count is {rope_dims}, but a head has {head_dim} dimensions")
    tensors = Tensors(file)
    vocab = _vocabulary(file)
    embedding = tensors.matrix("token_embd.weight", vocab, width)
    tied = "output.weight" not in tensors
    description = Description(
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn=ffn,
        vocab=vocab,
        context_length=context_length,
        eps=_eps(file),
        rope=read_rope(file, rope_dims, halves=False),
        embedding=embedding,
        layers=tuple(_layer(tensors, i, width, heads, kv_heads, head_dim, ffn) for i in range(layers)),
        output_norm=tensors.vector("output_norm.weight", width),
        output=embedding if tied else tensors.matrix("output.weight", vocab, width),
    )
    tensors.finish("rope_freqs.weight")
    return description


def _layer(t: Tensors, i: int, width: int, heads: int, kv_heads: int, head_dim: int, ffn: int) -> Layer:
    block, q_width, kv_width = f"blk.{i}.", heads * head_dim, kv_heads * head_dim
    mixer = Attention(
        norm=t.vector(block + "attn_norm.weight", width),
        q=t.matrix(block + "attn_q.weight", q_width, width),
        k=t.matrix(block + "attn_k.weight", kv_width, width),
        v=t.matrix(block + "attn_v.weight", kv_width, width),
        output=t.matrix(block + "attn_output.weight", width, q_width),
    )
    feed_forward = FeedForward(
        norm=t.vector(block + "ffn_norm.weight", width),
        gate=t.matrix(block + "ffn_gate.weight", ffn, width),
        up=t.matrix(block + "ffn_up.weight", ffn, width),
        down=t.matrix(block + "ffn_down.weight", width, ffn),
    )
    return Layer(mixer, feed_forward)


def _positive(file: GGUFFile, key: str) -> int:
    value = file.get_int(f"llama.{key}")
    if not 0 < value <= _LIMITS[key]:
        file.fail(f"key llama.{key} is {value}, outside 1 … {_LIMITS[key]}; get another conversion of the model")
    return value


def _eps(file: GGUFFile) -> float:
    eps = file.get_float("llama.attention.layer_norm_rms_epsilon")
    if not 0 <= eps < 1:
        file.fail(f"key llama.attention.layer_norm_rms_epsilon is {eps}, outside 0 … 1")
    return eps


def _vocabulary(file: GGUFFile) -> int:
    """Rows of the embedding; the tokens of the file must be as many."""
    tensor = file.tensors.get("token_embd.weight")
    if tensor is None or len(tensor.shape) != 2:
        file.fail("has no token_embd.weight matrix: it holds a vocabulary or a part of a model, and cannot run")
    tokens = file.get_strings("tokenizer.ggml.tokens", None)
    if tokens is not None and len(tokens) != tensor.shape[0]:
        file.fail(
            f"tensor token_embd.weight has {tensor.shape[0]} rows for {len(tokens)} tokens; "
            "get another conversion of the model"
        )
    return tensor.shape[0]
