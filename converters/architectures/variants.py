"""Variants of known architectures that edgellm does not compute, refused by the name of what they have."""

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.sizes import EXPERT_COUNTS
from edgellm.arch.blocks import Activation
from edgellm.arch.facts import ArchitectureFacts, no_router
from edgellm.fmt import printable

_NAMES = {
    Activation.SILU: ("silu", "swish"),
    Activation.GELU: ("gelu_pytorch_tanh", "gelu_new"),
    Activation.GELU_ERF: ("gelu",),
    Activation.RELU2: ("relu2",),
    Activation.XIELU: ("xielu",),
    Activation.CLAMPED_SWIGLU: ("silu", "swish"),
}
"""The names of activations in config.json."""


def check_variant(config: Config, facts: ArchitectureFacts, family: Family) -> None:
    """Refuse experts that the architecture lacks, activations other than its own, and what `family.check` refuses.

    Raises UnsupportedModelError, and ModelFileError for values of a wrong type.
    """
    if facts.router is no_router and family.read_architecture is None:
        _check_experts(config)
    if not _is_causal(config):
        config.refuse("tokens that see the ones after them (is_causal) write no text; choose another model")
    names = (*_NAMES[facts.activation], *family.activations)
    for key in ("hidden_activation", "hidden_act"):
        if key in config:
            given = config.word(key, names[0])
            if given not in names:
                config.refuse(f"{key} {printable(given)} is not supported for {facts.name}, only {' and '.join(names)}")
            break
    family.check(config)


def _check_experts(config: Config) -> None:
    """Refuse a mixture of experts, by the key of config.json that tells it."""
    experts = next((key for key in EXPERT_COUNTS if key in config and config.integer(key, least=0) > 1), None)
    if experts or config.flag("enable_moe_block"):
        key = experts or "enable_moe_block"
        config.refuse(f"experts ({key}) are not supported for this architecture; choose a model without them")


def _is_causal(config: Config) -> bool:
    """Whether tokens of a text see none after them; in Gemma 4 those of an image may."""
    key = "use_bidirectional_attention"
    both_ways = config.word(key, "") == "all" if config.is_text(key) else config.flag(key)
    return config.flag("is_causal", default=True) and not both_ways
