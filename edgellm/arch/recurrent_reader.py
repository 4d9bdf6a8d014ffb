"""From the tensors of a layer to its recurrent mixer. The GGUF stem of a tensor says what it is:

attn_norm                           the norm before the mixer
ssm_conv1d, shortconv.conv          the convolution
attn_qkv, attn_gate                 gated DeltaNet: the projections of q, k and v, and of z
ssm_alpha, ssm_beta, or ssm_ba      gated DeltaNet: the projections of the gates of each head
ssm_in                              Mamba-2: the rows of z, of x, B and C, of the step of each head
ssm_a, ssm_dt.bias, ssm_d           see `edgellm.arch.recurrent`
ssm_norm, ssm_out                   the norm of the result, and the projection behind it
shortconv.in_proj                   LFM2: the rows of b, of c, of x; shortconv.out_proj is the projection behind
"""

from edgellm.arch.blocks import Linear
from edgellm.arch.layers import LayerReader, part
from edgellm.arch.recurrent import (
    Convolution,
    DeltaNetSettings,
    GatedDeltaNet,
    Mamba2,
    MambaSettings,
    Recurrent,
    ShortConv,
    ShortConvSettings,
)


def read_recurrent(reader: LayerReader) -> Recurrent | None:
    """The recurrent mixer of a layer; None: it has none. Raises ModelFileError and UnsupportedModelError."""
    match reader.recurrent_settings:
        case DeltaNetSettings() as settings:
            return _delta_net(reader, settings)
        case MambaSettings() as settings:
            return _mamba(reader, settings)
        case ShortConvSettings() as settings:
            return _short_conv(reader, settings)
        case None:
            return None


def _delta_net(reader: LayerReader, settings: DeltaNetSettings) -> GatedDeltaNet:
    return GatedDeltaNet(
        **vars(settings),
        norm=reader.required_norm("attn_norm"),
        qkv=reader.matrix("attn_qkv", settings.qkv_width, reader.sizes.width),
        z=reader.matrix("attn_gate", settings.value_width, reader.sizes.width),
        alpha=reader.linear("ssm_alpha"),
        beta=reader.linear("ssm_beta"),
        beta_alpha=reader.linear("ssm_ba"),
        conv=_convolution(reader, "ssm_conv1d"),
        a=reader.floats("ssm_a"),
        dt_bias=reader.floats("ssm_dt.bias"),
        output_norm=reader.required_norm("ssm_norm"),
        output=reader.required("ssm_out"),
    )


def _mamba(reader: LayerReader, settings: MambaSettings) -> Mamba2:
    inner, end = settings.inner_width, settings.inner_width + settings.conv_width
    fused = reader.required("ssm_in")
    return Mamba2(
        **vars(settings),
        norm=None if reader.attention_settings else reader.required_norm("attn_norm"),
        z=part(fused, 0, inner),
        xbc=part(fused, inner, end),
        dt=part(fused, end, end + settings.heads),
        conv=_convolution(reader, "ssm_conv1d"),
        a=reader.floats("ssm_a"),
        d=reader.floats("ssm_d"),
        dt_bias=reader.floats("ssm_dt.bias"),
        output_norm=reader.norm("ssm_norm"),
        output=reader.required("ssm_out"),
    )


def _short_conv(reader: LayerReader, settings: ShortConvSettings) -> ShortConv:
    width = settings.width
    fused = _linear(reader, "shortconv.in_proj.weight")
    return ShortConv(
        **vars(settings),
        norm=reader.required_norm("attn_norm"),
        b=part(fused, 0, width),
        c=part(fused, width, 2 * width),
        x=part(fused, 2 * width, 3 * width),
        conv=_convolution(reader, "shortconv.conv.weight"),
        output=_linear(reader, "shortconv.out_proj.weight"),
    )


def _linear(reader: LayerReader, name: str) -> Linear:
    """A projection without a bias, by its whole name."""
    rows, columns = reader.sizes.shape(reader.facts.shapes[name])
    return Linear(reader.tensors.matrix(f"blk.{reader.index}.{name}", rows, columns))


def _convolution(reader: LayerReader, name: str) -> Convolution:
    return Convolution(reader.floats(name), reader.floats_or_none(f"{name}.bias"))
