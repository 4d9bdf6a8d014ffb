"""The config.json of the package mamba_ssm, by which Mamba-1 and Mamba-2 were first published.

Those are state-spaces/mamba-130m … 2.8b and mamba2-130m … 2.7b.

Keys and defaults: mamba_ssm/models/config_mamba.py, mamba_ssm/modules/mamba_simple.py and mamba_ssm/modules/mamba2.py.
"""

from collections.abc import Mapping

from converters.architectures.config import Config
from converters.architectures.sizes import MAX_VOCABULARY, MAX_WIDTH
from edgellm.fmt import printable

_LAYERS = "ssm_cfg"
_MAMBA1, _MAMBA2 = "Mamba1", "Mamba2"
_NAMES = {
    "d_state": "state_size",
    "d_conv": "conv_kernel",
    "expand": "expand",
    "headdim": "head_dim",
    "ngroups": "n_groups",
}
_DEFAULTS = {
    _MAMBA1: {"d_state": 16, "d_conv": 4, "expand": 2},
    _MAMBA2: {"d_state": 128, "d_conv": 4, "expand": 2, "headdim": 64, "ngroups": 1},
}
"""The sizes of a layer by its kind; a file without a kind has Mamba-1."""
_CLASSES = {_MAMBA1: "MambaForCausalLM", _MAMBA2: "Mamba2ForCausalLM"}
_VOCABULARY_ROWS = {_MAMBA1: 8, _MAMBA2: 16}
"""The rows of the embedding are padded to a multiple of these."""
_AUTO = "auto"


def in_names_of_transformers(config: Config) -> Config:
    """The configuration with the keys that transformers has for them; any other config.json as it is.

    Raises ModelFileError and UnsupportedModelError.
    """
    if _LAYERS not in config or config.given("architectures"):
        return config
    layers = Config(config.path, config.section(_LAYERS))
    kind = layers.word("layer", _MAMBA1)
    if kind not in _DEFAULTS:
        config.refuse(f"layers {printable(kind)} of {_LAYERS} are not supported, only {' and '.join(_DEFAULTS)}")
    _check(config, layers)
    width = config.integer("d_model", most=MAX_WIDTH)
    rows = config.integer("pad_vocab_size_multiple", _VOCABULARY_ROWS[kind])
    sizes = {key: layers.integer(key, default, most=1 << 16) for key, default in _DEFAULTS[kind].items()}
    return Config(
        config.path,
        {
            "architectures": [_CLASSES[kind]],
            "hidden_size": width,
            "num_hidden_layers": config.integer("n_layer"),
            "vocab_size": -(-config.integer("vocab_size", most=MAX_VOCABULARY) // rows) * rows,
            "tie_word_embeddings": config.flag("tie_embeddings", default=True),
            "use_bias": layers.flag("bias"),
            "use_conv_bias": layers.flag("conv_bias", default=True),
            **{_NAMES[key]: size for key, size in sizes.items()},
            **_steps(layers, width, sizes),
        },
    )


def _steps(layers: Config, width: int, sizes: Mapping[str, int]) -> dict[str, object]:
    """How many steps a layer has: one for each head of Mamba-2, or the values that those of Mamba-1 are made of."""
    if "headdim" in sizes:
        return {"num_heads": max(1, sizes["expand"] * width // sizes["headdim"])}
    is_auto = layers.is_text("dt_rank") and layers.word("dt_rank", _AUTO) == _AUTO
    return {"time_step_rank": _AUTO if is_auto or not layers.given("dt_rank") else layers.integer("dt_rank")}


def _check(config: Config, layers: Config) -> None:
    """Refuse what the architecture lacks: layers of attention and feed-forward, other norms, other heads."""
    if config.numbers("attn_layer_idx") or config.integer("d_intermediate", 0, least=0):
        config.refuse("layers of attention or feed-forward (attn_layer_idx, d_intermediate) are not supported here")
    if not config.flag("rms_norm", default=True) or not layers.flag("rmsnorm", default=True):
        config.refuse("norms other than RMSNorm (rms_norm, rmsnorm) are not supported for this architecture")
    lacking = [key for key in ("norm_before_gate", "D_has_hdim") if layers.flag(key)]
    lacking += [key for key in ("d_ssm", "dt_limit") if layers.given(key)]
    if lacking:
        config.refuse(f"{lacking[0]} of {_LAYERS} is not supported for this architecture")
