"""RoPE, from config.json to GGUF keys; scaling that GGUF holds as a tensor is in `rope_factors`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from converters.architectures.config import Config
from converters.architectures.keys import ArchitectureKeys
from edgellm.arch.facts import CheckpointClass
from edgellm.fmt import printable

# "dynamic" changes nothing up to the context length of config.json, "mrope" nothing for texts.
PLAIN = ("default", "dynamic", "mrope", "llama3")
SCALED = ("linear", "yarn")
_FULL, _SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True)
class RopeParameters:
    """The parameters of RoPE, by the names of transformers 5: `rope_type`, `rope_theta` and those of the type.

    `full` are those of all layers, or of the layers without a window where the windowed ones have `sliding`.
    """

    full: Config
    sliding: Config | None

    @property
    def kind(self) -> str:
        """The type of the scaling."""
        return self.full.word("rope_type", "default")

    @property
    def base(self) -> float:
        """The base of the frequencies."""
        return self.full.number("rope_theta", least=1.0)

    @property
    def rotary_fraction(self) -> float:
        """The part of a head's values that is rotated, in (0, 1]."""
        fraction = self.full.number("partial_rotary_factor", 1.0)
        if not 0 < fraction <= 1:
            self.full.fail(f"partial_rotary_factor is {fraction:g}, not above 0 and at most 1; correct it")
        return fraction


def read_rope(config: Config, checkpoint_class: CheckpointClass, kinds: tuple[str, ...]) -> RopeParameters:
    """The RoPE of a text model, of one of the types `kinds`.

    Transformers 5 has `rope_parameters`, by type of layer where they differ. Older versions have `rope_scaling` with
    `rope_theta` beside it, `type` in place of `rope_type`, and `rope_local_base_freq` for windowed layers. Raises
    ModelFileError, and UnsupportedModelError for a RoPE that GGUF or edgellm does not have.
    """
    given = config.section("rope_scaling") or config.section("rope_parameters")
    by_layer = _FULL in given or _SLIDING in given
    if by_layer and not checkpoint_class.dual_rope:
        config.refuse("rotary positions that differ from layer to layer are not supported for this architecture")
    full = _parameters(config, _section(config, given, _FULL) if by_layer else given)
    sliding = None
    if by_layer and _SLIDING in given:
        sliding = _parameters(config, _section(config, given, _SLIDING))
    elif checkpoint_class.dual_rope:
        local = config.number("rope_local_base_freq", full.number("rope_theta"), least=1.0)
        sliding = Config(config.path, {"rope_type": "default", "rope_theta": local})
    _check(config, full, kinds)
    if sliding is not None:
        _check(config, sliding, ("default",))
    return RopeParameters(full, sliding)


def _section(config: Config, given: Mapping[str, object], key: str) -> Mapping[str, object]:
    return Config(config.path, given).section(key)


def _parameters(config: Config, given: Mapping[str, object]) -> Config:
    """The parameters with those that older versions have beside them."""
    found = dict(given)
    found.setdefault("rope_type", found.get("type", "default"))
    if "rope_theta" not in found:
        found["rope_theta"] = config.number("rope_theta", 10000.0)
    fraction = next((key for key in ("partial_rotary_factor", "rope_pct") if key in config), None)
    if fraction and "partial_rotary_factor" not in found:
        found["partial_rotary_factor"] = config.number(fraction)
    found.setdefault("original_max_position_embeddings", config.integer("max_position_embeddings", 2048))
    if "original_max_position_embeddings" in config:
        found["original_max_position_embeddings"] = config.integer("original_max_position_embeddings")
    return Config(config.path, found)


def _check(config: Config, rope: Config, kinds: tuple[str, ...]) -> None:
    kind = rope.word("rope_type", "default")
    if kind not in kinds:
        *others, last = (each for each in kinds if each != "mrope")
        known = f"{', '.join(others)} and {last} are" if others else f"{last} is"
        config.refuse(f"rope scaling {printable(kind)} is not supported for this architecture, only {known}")


def write_rope(keys: ArchitectureKeys, rope: RopeParameters, yarn_truncate: bool) -> None:
    """Add the keys of the scaling, of the sections of M-RoPE, and of the bases.

    `yarn_truncate` is what readers take for the architecture where the file does not say it.
    """
    kind = rope.kind
    if kind in SCALED:
        keys.word("rope.scaling.type", kind)
        keys.number("rope.scaling.factor", rope.full.number("factor", least=1e-6))
    if kind == "yarn":
        _write_yarn(keys, rope.full)
        if (truncate := rope.full.flag("truncate", default=True)) != yarn_truncate:
            keys.flag("rope.scaling.yarn_truncate", truncate)
    if "mrope_section" in rope.full:
        sections = rope.full.integers("mrope_section", 3, least=0, most=1 << 10)
        keys.integers("rope.dimension_sections", [*sections, 0])
    keys.number("rope.freq_base", rope.base)
    if rope.sliding is not None:
        keys.number("rope.freq_base_swa", rope.sliding.number("rope_theta", least=1.0))


def _write_yarn(keys: ArchitectureKeys, rope: Config) -> None:
    keys.integer("rope.scaling.original_context_length", rope.integer("original_max_position_embeddings"))
    if "attention_factor" in rope:
        keys.number("rope.scaling.yarn_attn_factor", rope.number("attention_factor", least=1e-6))
    for name in ("beta_fast", "beta_slow"):
        if name in rope:
            keys.number(f"rope.scaling.yarn_{name}", rope.number(name))


def write_yarn_magnitude(keys: ArchitectureKeys, rope: RopeParameters) -> None:
    """Add the key that makes up for a YaRN whose factor of cosine and sine is not 1 + 0.1 ln(factor).

    llama.cpp's converter writes `attention_factor` to a key that programs do not read for these architectures. They
    multiply the usual factor by the value of this key.
    """
    if rope.kind == "yarn":
        ratio = yarn_magnitude(rope.full) / _magnitude(rope.full.number("factor"), 1.0)
        if abs(ratio - 1) > 1e-7:
            keys.number("rope.scaling.attn_factor", ratio)


def yarn_magnitude(rope: Config) -> float:
    """The factor of cosine and sine in YaRN, as transformers computes it (modeling_rope_utils.py)."""
    factor = rope.number("factor", least=1e-6)
    if "attention_factor" in rope:
        return rope.number("attention_factor", least=1e-6)
    scale, scale_all = rope.number("mscale", 0.0), rope.number("mscale_all_dim", 0.0)
    if scale and scale_all:
        return _magnitude(factor, scale) / _magnitude(factor, scale_all)
    return _magnitude(factor, 1.0)


def _magnitude(factor: float, scale: float) -> float:
    return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0
