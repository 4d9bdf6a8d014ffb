"""Write Hugging Face checkpoints with random weights, for tests and for measuring.

    python -m support.make_checkpoint FOLDER --family qwen3 --dtype BF16 --shards 2
    python -m support.make_checkpoint FOLDER --gigabytes 8      Llama 3 8B's layers, as many as fit, in shards of 1 GB

As in make_gguf, the weights mean nothing, but they are healthy: activations keep a size near 1. A large
checkpoint repeats the same random numbers. Sizes are in elements.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.checkpoint_numbers import WIDTH, Bytes, encode, scale_shapes, scale_to_fp8
from support.checkpoint_tokenizers import special_ids, write_json, write_tokenizer

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "rope_theta": 500000.0},
    "mistral": {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": None},
    "smollm2": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True},
    "qwen2": {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "rope_theta": 1000000.0},
    "qwen3": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": True},
}
"""What config.json holds of each family beyond its sizes."""

SCALES: dict[str, dict[str, Any]] = {
    "block": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
    "row": {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0},
    "tensor": {"quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed"},
}
"""The quantization_config that says how an FP8 checkpoint scales its weights."""

_DTYPES = ("F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")
# A tensor's random numbers, repeated if it has more: drawing 8 GB of them takes minutes.
_DRAWN = 1 << 22


@dataclass(frozen=True)
class Spec:
    """What to write: a name in FAMILIES, and how.

    `dtype` is F32, F16, BF16, F8_E4M3 or F8_E5M2; with the last two the layers' matrices get `scales` (a name in
    SCALES), and all else is BF16. More than one shard gets an index. `tied` None is as the family has it. `config`
    are more pairs of config.json, such as ("rope_scaling", {...}).
    """

    family: str = "llama"
    width: int = 256
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    ffn: int = 512
    vocab: int = 320
    context_length: int = 512
    dtype: str = "BF16"
    scales: str = "block"
    shards: int = 1
    tied: bool | None = None
    config: tuple[tuple[str, Any], ...] = ()
    seed: int = 0

    @property
    def tie_word_embeddings(self) -> bool:
        """Whether there is no lm_head.weight."""
        return FAMILIES[self.family].get("tie_word_embeddings", False) if self.tied is None else self.tied


LLAMA_8B = Spec(width=4096, layers=32, heads=32, kv_heads=8, head_dim=128, ffn=14336, vocab=128256)


class Stored(NamedTuple):
    """A tensor of a file; its `data` is repeated as often as its shape needs."""

    dtype: str
    shape: tuple[int, ...]
    data: Bytes

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return prod(self.shape) * WIDTH[self.dtype]


def write_checkpoint(folder: Path | str, **options: Any) -> Path:
    """Write a checkpoint into `folder`, made if need be; `options` are the fields of Spec. Returns the folder."""
    spec, folder = Spec(**options), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config_of(spec))
    write_json(folder / "generation_config.json", {"temperature": 0.6, "top_p": 0.9, "do_sample": True})
    write_tokenizer(folder, spec.family)
    weight_map: dict[str, str] = {}
    total = 0
    shards = _shards(spec)
    for number, shapes in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors" if spec.shards > 1 else "model.safetensors"
        tensors = {n: t for name, shape in shapes.items() for n, t in encoded(spec, name, shape).items()}
        write_safetensors(folder / file, tensors)
        weight_map |= dict.fromkeys(tensors, file)
        total += sum(tensor.nbytes for tensor in tensors.values())
    if spec.shards > 1:
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        write_json(folder / "model.safetensors.index.json", index)
    return folder


def config_of(spec: Spec) -> dict[str, Any]:
    """What config.json holds."""
    sizes = {
        "hidden_size": spec.width,
        "intermediate_size": spec.ffn,
        "num_hidden_layers": spec.layers,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads,
        "head_dim": spec.head_dim,
        "vocab_size": spec.vocab,
        "max_position_embeddings": spec.context_length,
    }
    bos, eos = special_ids(spec.family)
    others = {"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "bos_token_id": bos}
    kind = {"F32": "float32", "F16": "float16"}.get(spec.dtype, "bfloat16")
    config = sizes | others | FAMILIES[spec.family] | {"eos_token_id": eos, "torch_dtype": kind}
    config["tie_word_embeddings"] = spec.tie_word_embeddings
    if spec.dtype.startswith("F8"):
        config["quantization_config"] = SCALES[spec.scales]
    return config | dict(spec.config)


def tensor_shapes(spec: Spec) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every weight by its Hugging Face name, without the scales of FP8."""
    queries, keys = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    biased = {"q", "k", "v"} if spec.family == "qwen2" else set[str]()
    if dict(spec.config).get("attention_bias"):
        biased = {"q", "k", "v", "o"}
    yield "model.embed_tokens.weight", (spec.vocab, spec.width)
    for layer in (f"model.layers.{i}." for i in range(spec.layers)):
        yield layer + "input_layernorm.weight", (spec.width,)
        for stem, rows in (("q", queries), ("k", keys), ("v", keys)):
            yield f"{layer}self_attn.{stem}_proj.weight", (rows, spec.width)
            if stem in biased:
                yield f"{layer}self_attn.{stem}_proj.bias", (rows,)
            if spec.family == "qwen3" and stem != "v":
                yield f"{layer}self_attn.{stem}_norm.weight", (spec.head_dim,)
        yield layer + "self_attn.o_proj.weight", (spec.width, queries)
        if "o" in biased:
            yield layer + "self_attn.o_proj.bias", (spec.width,)
        yield layer + "post_attention_layernorm.weight", (spec.width,)
        yield layer + "mlp.gate_proj.weight", (spec.ffn, spec.width)
        yield layer + "mlp.up_proj.weight", (spec.ffn, spec.width)
        yield layer + "mlp.down_proj.weight", (spec.width, spec.ffn)
    yield "model.norm.weight", (spec.width,)
    if not spec.tie_word_embeddings:
        yield "lm_head.weight", (spec.vocab, spec.width)


def weights_of(spec: Spec, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The first numbers of one weight before they are encoded, 1-D; the others repeat them.

    They depend on the weight's name and on the seed alone.
    """
    rng = np.random.default_rng([spec.seed, *name.encode()])
    drawn = rng.standard_normal(min(prod(shape), _DRAWN), np.float32)
    if name.endswith(".bias"):
        return np.float32(0.2) * drawn
    mean, deviation = (1.0, 0.2) if len(shape) == 1 else (0.0, shape[-1] ** -0.5)
    return np.float32(mean) + np.float32(deviation) * drawn


def encoded(spec: Spec, name: str, shape: tuple[int, ...]) -> dict[str, Stored]:
    """One weight as it is stored, and the scales that FP8 adds to it."""
    numbers = weights_of(spec, name, shape)
    if not spec.dtype.startswith("F8"):
        return {name: Stored(spec.dtype, shape, encode(numbers, spec.dtype))}
    if "_proj.weight" not in name:
        return {name: Stored("BF16", shape, encode(numbers, "BF16"))}
    data, scales = scale_to_fp8(np.resize(numbers, shape), spec.dtype, spec.scales)
    scale_name = name + ("_scale_inv" if spec.scales == "block" else "_scale")
    scale = Stored("F32", scale_shapes(shape)[spec.scales], scales)
    return {name: Stored(spec.dtype, shape, data), scale_name: scale}


def write_safetensors(path: Path, tensors: Mapping[str, Stored]) -> None:
    """A safetensors file: the length of its header, the header as JSON, the tensors without gaps."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, tensor in tensors.items():
        span = [at, at + tensor.nbytes]
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": span}
        at = span[1]
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            whole, rest = divmod(tensor.nbytes, len(tensor.data))
            file.writelines([tensor.data.data] * whole)
            file.write(tensor.data[:rest].data)


def _shards(spec: Spec) -> list[dict[str, tuple[int, ...]]]:
    """The weights of each shard, about as many bytes in each; fewer than asked for where weights are large."""
    shapes = dict(tensor_shapes(spec))
    total, before = sum(map(prod, shapes.values())), 0
    shards: list[dict[str, tuple[int, ...]]] = [{} for _ in range(spec.shards)]
    for name, shape in shapes.items():
        shards[(2 * before + prod(shape)) * spec.shards // (2 * total)][name] = shape
        before += prod(shape)
    return [shard for shard in shards if shard]


def large(gigabytes: float, dtype: str) -> Spec:
    """A checkpoint of about so many gigabytes: as many layers of Llama 3 8B as fit, in shards of about 1 GB."""
    spec = replace(LLAMA_8B, dtype=dtype, layers=0)
    fixed, layer = (_nbytes(replace(spec, layers=n)) for n in (0, 1))
    layers = max(1, round((gigabytes * 1e9 - fixed) / (layer - fixed)))
    return replace(spec, layers=layers, shards=max(1, round(gigabytes)))


def _nbytes(spec: Spec) -> int:
    return sum(prod(shape) for _, shape in tensor_shapes(spec)) * WIDTH[spec.dtype]


def main() -> None:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(description="Write a Hugging Face checkpoint with random weights.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--family", choices=FAMILIES, default="llama")
    parser.add_argument("--dtype", choices=_DTYPES, default="BF16")
    parser.add_argument("--scales", choices=SCALES, default="block")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--gigabytes", type=float, help="a large one, of llama's family")
    asked = parser.parse_args()
    if asked.gigabytes is not None:
        write_checkpoint(asked.folder, **asdict(large(asked.gigabytes, asked.dtype)))
    else:
        write_checkpoint(asked.folder, family=asked.family, dtype=asked.dtype, scales=asked.scales, shards=asked.shards)


if __name__ == "__main__":
    main()
