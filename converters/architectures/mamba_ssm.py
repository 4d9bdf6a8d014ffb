"""The config.json of the package mamba_ssm, by which Mamba-2 was first published (state-spaces/mamba2-130m … 2.7b).

Keys and defaults: mamba_ssm/models/config_mamba.py and mamba_ssm/modules/mamba2.py.
"""

from converters.architectures.config import Config
from converters.architectures.sizes import MAX_VOCABULARY, MAX_WIDTH

_LAYERS = "ssm_cfg"
_NAMES = {
    "d_state": "state_size",
    "d_conv": "conv_kernel",
    "expand": "expand",
    "headdim": "head_dim",
    "ngroups": "n_groups",
}
_DEFAULTS = {"d_state": 128, "d_conv": 4, "expand": 2, "headdim": 64, "ngroups": 1}


def in_names_of_transformers(config: Config) -> Config:
    """The configuration with the keys that transformers has for them; any other config.json as it is.

    Raises ModelFileError and UnsupportedModelError.
    """
    if _LAYERS not in config or config.given("architectures"):
        return config
    layers = Config(config.path, config.section(_LAYERS))
    _check(config, layers)
    width, rows = config.integer("d_model", most=MAX_WIDTH), config.integer("pad_vocab_size_multiple", 16)
    sizes = {key: layers.integer(key, default, most=1 << 16) for key, default in _DEFAULTS.items()}
    return Config(
        config.path,
        {
            "architectures": [f"{layers.word('layer', 'Mamba')}ForCausalLM"],
            "hidden_size": width,
            "num_hidden_layers": config.integer("n_layer"),
            "vocab_size": -(-config.integer("vocab_size", most=MAX_VOCABULARY) // rows) * rows,
            "tie_word_embeddings": config.flag("tie_embeddings", default=True),
            "num_heads": max(1, sizes["expand"] * width // sizes["headdim"]),
            "use_bias": layers.flag("bias"),
            "use_conv_bias": layers.flag("conv_bias", default=True),
            **{_NAMES[key]: size for key, size in sizes.items()},
        },
    )


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
