"""Phi-3.5-MoE: as Phi-3, with LayerNorm, and a factor of cosine and sine that config.json gives."""

from collections.abc import Collection
from dataclasses import replace

from converters.architectures.config import Config
from converters.architectures.families import phi3
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import read_sizes_with_experts

_JITTER = 0.01


def _check(config: Config) -> None:
    """Refuse routers that GGUF has no keys for."""
    if config.number("router_jitter_noise", _JITTER) != _JITTER:
        config.refuse(f"router_jitter_noise other than {_JITTER} is not supported: GGUF has no key for it")
    if config.integer("num_experts_per_tok") != 2:
        config.refuse("num_experts_per_tok other than 2 is not supported for this architecture")


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    phi3.write(keys, model, _magnitude)
    keys.number("attention.layer_norm_rms_epsilon", model.config.number("rms_norm_eps"))


def _magnitude(model: TextModel) -> float:
    """The factor of cosine and sine in LongRoPE; it has a key for each set of factors, and GGUF has one for both."""
    rope = model.rope.full
    short, long = (rope.number(f"{length}_mscale", least=1e-6) for length in ("short", "long"))
    if short != long:
        rope.refuse("short_mscale other than long_mscale is not supported: GGUF has one key for both")
    return long


def _usual_eps(model: TextModel) -> Collection[str]:
    """The key of LayerNorm's epsilon: llama.cpp reads that of RMSNorm."""
    return ("attention.layer_norm_epsilon",)


FAMILY = replace(
    phi3.FAMILY,
    check=_check,
    sizes=read_sizes_with_experts,
    write=_write,
    leading=("phimoe.rope.scaling.attn_factor",),
    order=(*phi3.FAMILY.order, "general.file_type", "attention.sliding_window", "expert_used_count", "expert_count"),
    omitted=_usual_eps,
)
