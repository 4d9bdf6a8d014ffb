"""The tensors of recurrent mixers: their names in GGUF files and in checkpoints, and their shapes."""

from edgellm.arch.tensor_names import Size, TensorFacts

_CONVOLUTION: tuple[Size, ...] = ("conv_width", 1, "taps")
"""The shape of a convolution over time in checkpoints; in PyTorch's, an output channel has one input channel."""

DELTA_NET_TENSORS = (
    TensorFacts("attn_qkv", "linear_attn.in_proj_qkv", None, ("conv_width", "width")),
    TensorFacts("attn_gate", "linear_attn.in_proj_z", None, ("recurrent_width", "width")),
    TensorFacts("ssm_alpha", "linear_attn.in_proj_a", None, ("recurrent_heads", "width")),
    TensorFacts("ssm_beta", "linear_attn.in_proj_b", None, ("recurrent_heads", "width")),
    TensorFacts("ssm_conv1d", "linear_attn.conv1d", None, ("conv_width", "taps"), checkpoint_shape=_CONVOLUTION),
    TensorFacts("ssm_a", "linear_attn.A_log", None, ("recurrent_heads",), is_bare=True),
    TensorFacts("ssm_dt.bias", "linear_attn.dt_bias", None, ("recurrent_heads",)),
    TensorFacts("ssm_norm", "linear_attn.norm", None, ("recurrent_head_dim",)),
    TensorFacts("ssm_out", "linear_attn.out_proj", None, ("width", "recurrent_width")),
)
"""Tensors of each layer: gated DeltaNet."""

KIMI_DELTA_TENSORS = (
    TensorFacts("attn_q", "self_attn.q_proj", None, ("mixer_q_width", "width")),
    TensorFacts("attn_k", "self_attn.k_proj", None, ("recurrent_width", "width")),
    TensorFacts("attn_v", "self_attn.v_proj", None, ("recurrent_width", "width")),
    *(
        TensorFacts(
            f"ssm_conv1d_{each}",
            f"self_attn.{each}_conv1d",
            None,
            (1, "recurrent_width", 1, "taps"),
            checkpoint_shape=("recurrent_width", 1, "taps"),
        )
        for each in "qkv"
    ),
    TensorFacts("ssm_f_a", "self_attn.f_a_proj", None, ("recurrent_head_dim", "width")),
    TensorFacts("ssm_f_b", "self_attn.f_b_proj", None, ("recurrent_width", "recurrent_head_dim")),
    TensorFacts("ssm_beta", "self_attn.b_proj", None, ("recurrent_heads", "width")),
    TensorFacts("ssm_g_a", "self_attn.g_a_proj", None, ("recurrent_head_dim", "width")),
    TensorFacts("ssm_g_b", "self_attn.g_b_proj", None, ("recurrent_width", "recurrent_head_dim")),
    TensorFacts("ssm_a", "self_attn.A_log", None, (1, 1, "recurrent_heads", 1), is_bare=True),
    TensorFacts("ssm_dt.bias", "self_attn.dt_bias", None, ("recurrent_width",)),
    TensorFacts("ssm_norm", "self_attn.o_norm", None, ("recurrent_head_dim",)),
    TensorFacts("attn_output", "self_attn.o_proj", None, ("width", "mixer_width")),
)
"""Tensors of each layer: Kimi delta attention. Layers with attention have attn_q and attn_output, too."""

MAMBA_TENSORS = (
    TensorFacts("ssm_in", "mamba.in_proj", None, ("mamba_in_width", "width")),
    TensorFacts("ssm_conv1d", "mamba.conv1d", None, ("conv_width", "taps"), checkpoint_shape=_CONVOLUTION),
    TensorFacts("ssm_conv1d.bias", "mamba.conv1d.bias", None, ("conv_width",), optional=True),
    TensorFacts(
        "ssm_a", "mamba.A_log", None, ("recurrent_heads", 1), is_bare=True, checkpoint_shape=("recurrent_heads",)
    ),
    TensorFacts("ssm_d", "mamba.D", None, ("recurrent_heads", 1), is_bare=True, checkpoint_shape=("recurrent_heads",)),
    TensorFacts("ssm_dt.bias", "mamba.dt_bias", None, ("recurrent_heads",)),
    TensorFacts(
        "ssm_norm",
        "mamba.norm",
        None,
        ("recurrent_groups", "recurrent_group_width"),
        checkpoint_shape=("recurrent_width",),
    ),
    TensorFacts("ssm_out", "mamba.out_proj", None, ("width", "recurrent_width")),
)
"""Tensors of each layer: Mamba-2."""

MAMBA1_TENSORS = (
    TensorFacts("ssm_in", "mixer.in_proj", None, ("twice_recurrent_width", "width")),
    TensorFacts("ssm_conv1d", "mixer.conv1d", None, ("conv_width", "taps"), checkpoint_shape=_CONVOLUTION),
    TensorFacts("ssm_conv1d.bias", "mixer.conv1d.bias", None, ("conv_width",), optional=True),
    TensorFacts("ssm_x", "mixer.x_proj", None, ("step_b_c_width", "recurrent_width")),
    TensorFacts("ssm_dt", "mixer.dt_proj", None, ("recurrent_width", "step_rank")),
    TensorFacts("ssm_dt.bias", "mixer.dt_proj.bias", None, ("recurrent_width",)),
    TensorFacts("ssm_a", "mixer.A_log", None, ("recurrent_width", "state_dim"), is_bare=True),
    TensorFacts("ssm_d", "mixer.D", None, ("recurrent_width",), is_bare=True),
    TensorFacts("ssm_out", "mixer.out_proj", None, ("width", "recurrent_width")),
)
"""Tensors of each layer: Mamba-1."""

SHORT_CONV_TENSORS = (
    TensorFacts("shortconv.in_proj.weight", "conv.in_proj", None, ("three_recurrent_widths", "width")),
    TensorFacts("shortconv.conv.weight", "conv.conv", None, ("conv_width", "taps"), checkpoint_shape=_CONVOLUTION),
    TensorFacts("shortconv.out_proj.weight", "conv.out_proj", None, ("width", "recurrent_width")),
)
"""Tensors of each layer: the short convolution of LFM2."""
