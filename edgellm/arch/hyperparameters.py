"""The sizes of a model, read from its metadata and checked, as compiled code computes addresses from them.

Sizes may differ from layer to layer: a key then holds an array with a value for each.
"""

from collections.abc import Sequence
from functools import cached_property

from edgellm.arch.blocks import NormKind
from edgellm.arch.positions import Rope, RopeType
from edgellm.arch.refuse import refuse
from edgellm.arch.rope import RopeReader
from edgellm.gguf import GGUFFile

MAX_EXPERTS = 4096

MAX_HEAD_DIM = 1024

_LIMITS = {
    "embedding_length": 1 << 20,
    "feed_forward_length": 1 << 20,
    "attention.head_count": 1 << 12,
    "block_count": 1 << 12,
    "context_length": 1 << 31,
    "embedding_length_per_layer_input": 1 << 16,
    "expert_count": MAX_EXPERTS,
    "expert_feed_forward_length": 1 << 20,
    "expert_shared_feed_forward_length": 1 << 20,
    "moe_latent_size": 1 << 20,
    "ssm.state_size": MAX_HEAD_DIM,
    "kda.head_dim": MAX_HEAD_DIM,
    "ssm.inner_size": 1 << 20,
    "ssm.time_step_rank": 1 << 12,
    "ssm.group_count": 1 << 12,
}

_MOST_IMAGE_TOKENS = 64

_MAX_Q_WIDTH = 1 << 20
"""The largest heads · head_dim: sixty times that of a model of 405B parameters."""


class HyperParameters:
    """The metadata of a file's architecture. Keys are given without the architecture's prefix.

    All methods and properties raise ModelFileError where values are missing, absurd or contradict each other.
    `used_experts` raises UnsupportedModelError where it differs from layer to layer.
    """

    def __init__(
        self,
        file: GGUFFile,
        rope_type: RopeType,
        norm_kind: NormKind,
        yarn_truncate: bool = True,
        is_hybrid: bool = False,
    ) -> None:
        self.file, self.norm_kind = file, norm_kind
        least = 0 if is_hybrid else 1
        self.layer_count = self.size("block_count") - self.prediction_layers
        self.width = self.size("embedding_length")
        self.vocab = self._vocabulary()
        self.context_length = self.size("context_length")
        self.heads = self.sizes("attention.head_count", least=least)
        self.kv_heads = self.sizes("attention.head_count_kv", self.heads, least)
        self.ffn = self.sizes("feed_forward_length", (0,) * self.layer_count if is_hybrid else None, least)
        self.per_layer_width = self._per_layer_width()
        self.ropes = RopeReader(file, rope_type, yarn_truncate)

    def key(self, name: str) -> str:
        """The full key of a name."""
        return f"{self.file.architecture}.{name}"

    def __contains__(self, name: str) -> bool:
        return self.key(name) in self.file.metadata

    def integer(self, name: str, default: int | None = None) -> int:
        """The integer at a key, or `default` where it is absent and has one."""
        key = self.key(name)
        return self.file.get_int(key) if default is None else self.file.get_int(key, default)

    def number(self, name: str, default: float | None = None, least: float = 1e-9, most: float = 1e15) -> float:
        """The number at a key, `least` … `most`, or `default` where it is absent and has one."""
        key = self.key(name)
        value = self.file.get_float(key) if default is None else self.file.get_float(key, default)
        if value != default and not least <= value <= most:
            self.file.fail(f"key {key} is {value}, outside {least:g} … {most:g}; get another conversion of the model")
        return value

    def per_layer(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """The integers of all blocks: those of an array, or one for all.

        An array without the prediction layers goes on with its last value that is not 0, and so does the default.
        """
        key = self.key(name)
        if key not in self.file.metadata and default is not None:
            values = tuple(default)
        else:
            has_more = self.file.is_array(key) and len(self.file.metadata[key]) == self.block_count
            values = self.file.get_integers(key, self.block_count if has_more else self.layer_count)
        last = next((value for value in reversed(values) if value), 0)
        return values + (last,) * (self.block_count - len(values))

    def size(self, name: str) -> int:
        """The number at a key, from 1 to its limit."""
        return self._checked(name, self.file.get_int(self.key(name)))

    def sizes(self, name: str, default: Sequence[int] | None = None, least: int = 1) -> tuple[int, ...]:
        """The numbers of all blocks; those of layers are from `least` to the key's limit.

        Those of prediction layers are not checked, as a model computes without them: who reads such a layer compares
        them with its tensors.
        """
        values = self.per_layer(name, default)
        for value in values[: self.layer_count]:
            self._checked(name, value, least)
        return values

    def _checked(self, name: str, value: int, least: int = 1) -> int:
        most = _LIMITS.get(name, _LIMITS["attention.head_count"])
        if not least <= value <= most:
            key = self.key(name)
            self.file.fail(f"key {key} is {value}, outside {least} … {most}; get another conversion of the model")
        return value

    def head_dim(self, name: str, default: int) -> int:
        """The values of a head at a key such as `attention.key_length`, from 1 to MAX_HEAD_DIM."""
        value = self.integer(name, default)
        if not 0 < value <= MAX_HEAD_DIM:
            self.file.fail(f"key {self.key(name)} is {value}, outside 1 … {MAX_HEAD_DIM}; get another conversion")
        return value

    @property
    def block_count(self) -> int:
        """Layers, and behind them those for multi-token prediction."""
        return self.layer_count + self.prediction_layers

    @cached_property
    def prediction_layers(self) -> int:
        """Last blocks of `block_count` that predict further tokens (multi-token prediction), no part of the model."""
        name, blocks = "nextn_predict_layers", self.size("block_count")
        count = self.integer(name, 0)
        if not 0 <= count < blocks:
            self.file.fail(f"key {self.key(name)} is {count} of {blocks} blocks; get another conversion of the model")
        return count

    @cached_property
    def eps(self) -> float:
        """The epsilon of all norms, at the key of their kind, or at that of the other kind in files without it."""
        keys = ["attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"]
        first, other = keys if self.norm_kind is NormKind.RMS else keys[::-1]
        return self.number(other if other in self and first not in self else first, least=0.0, most=0.99)

    @cached_property
    def experts(self) -> int:
        """Experts of each layer that has any; 0: the model has none."""
        return self.size("expert_count") if self.integer("expert_count", 0) else 0

    @cached_property
    def used_experts(self) -> int:
        """Experts that compute a token, in each layer that has any."""
        name, most = "expert_used_count", self.experts
        if self.file.is_array(self.key(name)):
            what = "layers that use different numbers of experts, as those of Nemotron 3 Puzzle, are not supported"
            refuse(self.file, f"{what} (key {self.key(name)}); choose another model, such as Nemotron 3 Super or Nano")
        used = self.integer(name)
        if not 0 < used <= most:
            self.file.fail(f"key {self.key(name)} is {used} of {most} experts; get another conversion of the model")
        return used

    def expert_ffn(self, layer: int) -> int:
        """The width of each expert of a layer."""
        name = "expert_feed_forward_length"
        return self.sizes(name)[layer] if name in self else self.ffn[layer]

    @cached_property
    def expert_latent(self) -> int:
        """Values of the latent that experts read; 0 where they read hidden states."""
        name = "moe_latent_size"
        return self.size(name) if self.integer(name, 0) else 0

    @cached_property
    def has_shared_experts(self) -> bool:
        """Whether the file says that experts are shared by all tokens."""
        return any(self.integer(f"expert_shared_{name}", 0) > 0 for name in ("count", "feed_forward_length"))

    def shared_ffn(self, layer: int) -> int:
        """The width of the shared experts of a layer together; where the file does not say it, it counts them."""
        name = "expert_shared_feed_forward_length"
        if self.integer(name, 0):
            return self.size(name)
        return max(1, self.integer("expert_shared_count", 1)) * self.expert_ffn(layer)

    def rope(self, dims: int, *, base: float | None = None, scaled: bool = True) -> Rope:
        """RoPE over the first `dims` values of a head; see `edgellm.arch.rope.RopeReader.read`."""
        return self.ropes.read(dims, base=base, scaled=scaled)

    def rope_sections(self) -> tuple[int, ...]:
        """The sizes of M-RoPE's four sections of a head; zeros where the model has none."""
        name = "rope.dimension_sections"
        return self.file.get_integers(self.key(name), 4) if name in self else (0, 0, 0, 0)

    def end_context(self, tokens: int) -> None:
        """End the context after `tokens` tokens, the most that edgellm computes exactly."""
        self.context_length = min(self.context_length, tokens)

    def has_heads(self, layer: int) -> bool:
        """Whether a layer has attention heads; those of hybrid models may have none."""
        return self.heads[layer] > 0 and self.kv_heads[layer] > 0

    def check_heads(self, layer: int, key_dim: int, value_dim: int) -> None:
        """Check that the heads of a layer are possible. There are some; see `has_heads`."""
        heads, kv_heads = self.heads[layer], self.kv_heads[layer]
        if heads % kv_heads:
            self.file.fail(f"{heads} attention heads cannot share {kv_heads} KV heads; get another conversion")
        if heads * max(key_dim, value_dim) > _MAX_Q_WIDTH:
            self.file.fail(f"{heads} heads of {key_dim} values are more than a model has; get another conversion of it")

    def _per_layer_width(self) -> int:
        """Values of the embedding that each layer has for itself; 0: none."""
        name = "embedding_length_per_layer_input"
        return self.size(name) if self.integer(name, 0) else 0

    def _vocabulary(self) -> int:
        """Rows of the embedding: as many as the tokens of the file, which may have some more for images."""
        tensor = self.file.tensors.get("token_embd.weight")
        if tensor is None or len(tensor.shape) != 2:
            self.file.fail("has no token_embd.weight matrix: it holds a vocabulary or part of a model and cannot run")
        tokens = self.file.get_strings("tokenizer.ggml.tokens", None)
        images = any(name.startswith("mm.") for name in self.file.tensors)
        if tokens is not None and not 0 <= len(tokens) - tensor.shape[0] <= (_MOST_IMAGE_TOKENS if images else 0):
            self.file.fail(
                f"tensor token_embd.weight has {tensor.shape[0]} rows for {len(tokens)} tokens; "
                "get another conversion of the model"
            )
        return tensor.shape[0]
