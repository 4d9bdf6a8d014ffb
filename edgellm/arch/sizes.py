"""The sizes of a model, read from its metadata and checked, as compiled code computes addresses from them."""

from edgellm.arch.description import ModelSizes
from edgellm.gguf import GGUFFile

_LIMITS = {
    "embedding_length": 1 << 20,
    "feed_forward_length": 1 << 20,
    "attention.head_count": 1 << 12,
    "block_count": 1 << 12,
    "context_length": 1 << 31,
}

_MAX_Q_WIDTH = 1 << 20
"""The largest heads · head_dim: sixty times that of a model of 405B parameters."""


def read_sizes(file: GGUFFile) -> ModelSizes:
    """The sizes of a file's model. Raises ModelFileError where they are missing, absurd or contradict each other."""
    prefix = f"{file.architecture}.attention."
    width, heads = _positive(file, "embedding_length"), _positive(file, "attention.head_count")
    kv_heads = file.get_int(prefix + "head_count_kv", heads)
    head_dim = file.get_int(prefix + "key_length", width // heads)
    if not 0 < kv_heads <= heads or heads % kv_heads:
        file.fail(f"{heads} attention heads cannot share {kv_heads} KV heads; get another conversion of the model")
    if not 0 < head_dim <= 1024 or file.get_int(prefix + "value_length", head_dim) != head_dim:
        model = f"a {file.architecture} model's"
        file.fail(f"heads whose keys and values differ in size, or are empty, or above 1024, are not {model}")
    if heads * head_dim > _MAX_Q_WIDTH:
        file.fail(f"{heads} heads of {head_dim} values are more than a model has; get another conversion of it")
    return ModelSizes(
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn=_positive(file, "feed_forward_length"),
        vocab=_vocabulary(file),
        context_length=_context_length(file),
        eps=_eps(file),
        layer_count=_positive(file, "block_count"),
    )


def _positive(file: GGUFFile, name: str) -> int:
    """The number at a key of the architecture, from 1 to its limit."""
    key = f"{file.architecture}.{name}"
    value = file.get_int(key)
    if not 0 < value <= _LIMITS[name]:
        file.fail(f"key {key} is {value}, outside 1 … {_LIMITS[name]}; get another conversion of the model")
    return value


def _context_length(file: GGUFFile) -> int:
    """The longest context that edgellm computes exactly.

    Old Mistral files have a sliding window, which edgellm does not compute. Up to its length every token sees all
    tokens before it, so the context ends there.
    """
    length = _positive(file, "context_length")
    window = file.get_int(f"{file.architecture}.attention.sliding_window", 0)
    return min(length, window) if window > 0 else length


def _eps(file: GGUFFile) -> float:
    key = f"{file.architecture}.attention.layer_norm_rms_epsilon"
    eps = file.get_float(key)
    if not 0 <= eps < 1:
        file.fail(f"key {key} is {eps}, outside 0 … 1")
    return eps


def _vocabulary(file: GGUFFile) -> int:
    """Rows of the embedding, which must be as many as the tokens of the file."""
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
