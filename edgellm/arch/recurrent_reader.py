"""From the tensors of a layer to its recurrent mixer. The GGUF stem of a tensor says what it is:

attn_norm                           the norm before the mixer
ssm_conv1d, shortconv.conv          the convolution
attn_qkv, attn_gate                 gated DeltaNet: the projections of q, k and v, and of z
ssm_alpha, ssm_beta, or ssm_ba      gated DeltaNet: the projections of the gates of each head
attn_q, attn_k, attn_v              Kimi delta attention: the projections of q, k and v
ssm_conv1d_q, ssm_conv1d_k, …_v     Kimi delta attention: their convolutions
ssm_f_a, ssm_f_b                    Kimi delta attention: the low-rank projection of the decay of each channel
ssm_g_a, ssm_g_b                    Kimi delta attention: that of the gate
ssm_in                              Mamba-2: the rows of z, of x, B and C, of the step of each head; Mamba-1: of x, of z
ssm_x, ssm_dt                       Mamba-1: the rows of the values of the step, of B, of C; those of the step itself
ssm_a, ssm_dt.bias, ssm_d           see `edgellm.arch.recurrent`
ssm_norm, ssm_out                   the norm of the result, and the projection behind it, which is attn_output in Kimi's
shortconv.in_proj                   LFM2: the rows of b, of c, of x; shortconv.out_proj is the projection behind
"""

from dataclasses import replace

from edgellm.arch.blocks import Linear
from edgellm.arch.kimi_delta import KimiDelta, KimiDeltaSettings
from edgellm.arch.layers import LayerReader, part
from edgellm.arch.mamba1 import Mamba1, Mamba1Settings
from edgellm.arch.recurrent import (
    DeltaNetSettings,
    GatedDeltaNet,
    Mamba2,
    MambaSettings,
    Recurrent,
    ShortConv,
    ShortConvSettings,
)
from edgellm.arch.recurrent_parts import Convolution


def read_recurrent(reader: LayerReader) -> Recurrent | None:
    """The recurrent mixer of a layer; None for a layer without one. Raises ModelFileError and UnsupportedModelError."""
    match reader.recurrent_settings:
        case DeltaNetSettings() as settings:
            return _delta_net(reader, settings)
        case KimiDeltaSettings() as settings:
            return _kimi_delta(reader, settings)
        case Mamba1Settings() as settings:
            return _mamba1(reader, settings)
        case MambaSettings() as settings:
            return _mamba2(reader, settings)
        case ShortConvSettings() as settings:
            return _short_conv(reader, settings)
        case None:
            return None


def _delta_net(reader: LayerReader, settings: DeltaNetSettings) -> GatedDeltaNet:
    return GatedDeltaNet(
        **vars(settings),
        norm=reader.required_norm("attn_norm"),
        qkv=reader.required("attn_qkv"),
        z=reader.required("attn_gate"),
        alpha=reader.linear("ssm_alpha"),
        beta=reader.linear("ssm_beta"),
        beta_alpha=reader.linear("ssm_ba"),
        conv=_convolution(reader, "ssm_conv1d"),
        a=reader.floats("ssm_a"),
        dt_bias=reader.floats("ssm_dt.bias"),
        output_norm=reader.required_norm("ssm_norm"),
        output=reader.required("ssm_out"),
    )


def _kimi_delta(reader: LayerReader, settings: KimiDeltaSettings) -> KimiDelta:
    shape = settings.width, settings.taps  # without the dimensions of 1 that files have before and between these
    weights = (replace(reader.floats(f"ssm_conv1d_{each}"), shape=shape) for each in "qkv")
    q_conv, k_conv, v_conv = map(Convolution, weights)
    return KimiDelta(
        **vars(settings),
        norm=reader.required_norm("attn_norm"),
        q=reader.required("attn_q"),
        k=reader.required("attn_k"),
        v=reader.required("attn_v"),
        q_conv=q_conv,
        k_conv=k_conv,
        v_conv=v_conv,
        decay_a=reader.required("ssm_f_a"),
        decay_b=reader.required("ssm_f_b"),
        beta=reader.required("ssm_beta"),
        gate_a=reader.required("ssm_g_a"),
        gate_b=reader.required("ssm_g_b"),
        a=reader.floats("ssm_a"),
        dt_bias=reader.floats("ssm_dt.bias"),
        output_norm=reader.required_norm("ssm_norm"),
        output=reader.required("attn_output"),
    )


def _mamba1(reader: LayerReader, settings: Mamba1Settings) -> Mamba1:
    width, rank, end = settings.width, settings.step_rank, reader.sizes.step_b_c_width
    fused, read_by_scan = reader.required("ssm_in"), reader.required("ssm_x")
    return Mamba1(
        **vars(settings),
        norm=reader.required_norm("attn_norm"),
        x=part(fused, 0, width),
        z=part(fused, width, 2 * width),
        conv=_convolution(reader, "ssm_conv1d"),
        step_a=part(read_by_scan, 0, rank),
        bc=part(read_by_scan, rank, end),
        step_b=reader.required("ssm_dt"),
        a=reader.floats("ssm_a"),
        d=reader.floats("ssm_d"),
        dt_bias=reader.floats("ssm_dt.bias"),
        output=reader.required("ssm_out"),
    )


def _mamba2(reader: LayerReader, settings: MambaSettings) -> Mamba2:
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
    weight = reader.tensors.matrix(f"blk.{reader.index}.{name}", rows, columns)
    return Linear(weight, factor=reader.factors(name.removesuffix(".weight"), 1))


def _convolution(reader: LayerReader, name: str) -> Convolution:
    return Convolution(reader.floats(name), reader.floats_or_none(f"{name}.bias"))
