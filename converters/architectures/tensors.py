"""The tensors that a model must have, and those that a checkpoint has, matched one to one before any is read."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from converters.architectures.config import Config
from converters.architectures.variant import Sizes, Variant
from converters.checkpoint import Checkpoint
from converters.names import name_map
from converters.tensors import Source
from edgellm.gguf.printable import printable

Shapes = Mapping[str, tuple[int, ...]]

# Left in old checkpoints: what they hold is computed from config.json. llama.cpp's converter drops the same.
_COMPUTED = (".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq")
_EMBEDDING, _OUTPUT = "token_embd.weight", "output.weight"


def read_tensors(checkpoint: Checkpoint, config: Config, variant: Variant, sizes: Sizes) -> list[Source]:
    """All tensors under their GGUF names, by file and name in the checkpoint. Raises ModelFileError.

    A model with tied embeddings may have an output matrix nonetheless, which is kept.
    """
    wanted = dict(_shapes(config, variant, sizes))
    found = _match(checkpoint, config, variant, wanted)
    optional = {_OUTPUT} if config.flag("tie_word_embeddings") else set()
    for gguf_name in wanted:
        if gguf_name not in found and gguf_name not in optional:
            config.fail(f"the checkpoint has no tensor for {gguf_name} of GGUF; get another copy of it")
    return [checkpoint.source(name, gguf_name, _moved(gguf_name, variant, sizes)) for gguf_name, name in found.items()]


def _match(checkpoint: Checkpoint, config: Config, variant: Variant, wanted: Shapes) -> dict[str, str]:
    """The checkpoint's name of each tensor by its GGUF name, all with the shapes they must have."""
    to_gguf = name_map(variant.architecture, config.integer("num_hidden_layers"))
    found: dict[str, str] = {}
    for name, stored in sorted(checkpoint.tensors.items(), key=lambda item: (item[1].file.name, item[0])):
        if name.endswith(_COMPUTED):
            continue
        gguf_name = to_gguf(name)
        if gguf_name is None or gguf_name not in wanted or gguf_name in found:
            what = f"tensor {printable(name)} has no place in this {variant.architecture} model"
            config.fail(f"{what}; get another copy of the checkpoint")
        if stored.shape != wanted[gguf_name]:
            shapes = f"{list(stored.shape)}, not {list(wanted[gguf_name])} as config.json asks"
            config.fail(f"tensor {printable(name)} has shape {shapes}; get another copy of the checkpoint")
        found[gguf_name] = name
    return found


def _shapes(config: Config, variant: Variant, sizes: Sizes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """GGUF names and shapes, in numpy order, of everything that such a model has."""
    queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    products = {
        "attn_q": (queries, sizes.width),
        "attn_k": (keys, sizes.width),
        "attn_v": (keys, sizes.width),
        "attn_output": (sizes.width, queries),
        "ffn_gate": (sizes.ffn, sizes.width),
        "ffn_up": (sizes.ffn, sizes.width),
        "ffn_down": (sizes.width, sizes.ffn),
    }
    norms = {"attn_norm": sizes.width, "ffn_norm": sizes.width}
    if variant.head_norms:
        norms |= {"attn_q_norm": sizes.head_dim, "attn_k_norm": sizes.head_dim}
    biases = [*variant.biases, *(stem for key, stems in variant.optional_biases if config.flag(key) for stem in stems)]
    yield _EMBEDDING, (sizes.vocab, sizes.width)
    yield "output_norm.weight", (sizes.width,)
    yield _OUTPUT, (sizes.vocab, sizes.width)
    for layer in (f"blk.{i}." for i in range(sizes.layers)):
        yield from ((f"{layer}{stem}.weight", shape) for stem, shape in products.items())
        yield from ((f"{layer}{stem}.weight", (n,)) for stem, n in norms.items())
        yield from ((f"{layer}{stem}.bias", products[stem][:1]) for stem in biases)


def _moved(gguf_name: str, variant: Variant, sizes: Sizes) -> NDArray[np.intp] | None:
    """Which row of the checkpoint's tensor each row of GGUF's is, or None where rows stay.

    Hugging Face turns dimension i of a head with i + head_dim / 2, and stores rows so
    (transformers/models/llama/convert_llama_weights_to_hf.py, `permute`); GGUF's llama has Meta's order, 2i with
    2i + 1.
    """
    stem = gguf_name.split(".")[-2]
    if not variant.neighbours or stem not in ("attn_q", "attn_k"):
        return None
    heads = sizes.heads if stem == "attn_q" else sizes.kv_heads
    rows = np.arange(heads * sizes.head_dim).reshape(heads, 2, sizes.head_dim // 2)
    return rows.swapaxes(1, 2).reshape(-1)
