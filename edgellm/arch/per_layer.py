"""Parts of Gemma 3n and Gemma 4 beside attention and feed-forward: embeddings for each layer, and streams.

per_layer_token_embd, per_layer_model_proj, per_layer_proj_norm     see `edgellm.arch.description.PerLayerEmbeddings`
inp_gate, proj, post_norm                                           see `edgellm.arch.blocks.PerLayerInput`
layer_output_scale                                                  the factor of the hidden state behind the layer
laurel_l, laurel_r, laurel_post_norm                                see `Laurel` there
altup_router, altup_router_norm, altup_predict_coef, …              see `AltUp` there
altup_proj, altup_unembd_proj                                       see `edgellm.arch.description.Streams`
"""

from dataclasses import replace
from math import isfinite

import numpy as np

from edgellm.arch.blocks import AltUp, Attention, FeedForward, Laurel, Layer, Linear, Norm, PerLayerInput
from edgellm.arch.description import PerLayerEmbeddings, Streams
from edgellm.arch.experts import ExpertReader
from edgellm.arch.facts import ArchitectureFacts
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.latent_attention import LatentAttention, LatentSettings
from edgellm.arch.latent_reader import read_latent_attention
from edgellm.arch.layers import LayerReader
from edgellm.arch.mixture import MixtureOfExperts
from edgellm.arch.per_layer_names import (
    PER_LAYER_NORM,
    PER_LAYER_PROJECTION,
    PER_LAYER_TABLE,
    STREAM_PROJECTIONS,
    STREAM_UNEMBEDDINGS,
    STREAMS,
)
from edgellm.arch.recurrent_reader import read_recurrent
from edgellm.arch.tensor_names import ATTN_NORM
from edgellm.arch.tensors import Tensors


def per_layer_embeddings(
    tensors: Tensors, hyper: HyperParameters, facts: ArchitectureFacts
) -> PerLayerEmbeddings | None:
    """The embeddings of all layers; None where `embedding_length_per_layer_input` is 0 or absent."""
    width = hyper.per_layer_width
    if not width or not facts.model_tensors:
        return None
    total = width * hyper.layer_count
    return PerLayerEmbeddings(
        width=width,
        table=tensors.matrix(f"{PER_LAYER_TABLE.gguf}.weight", hyper.vocab, total),
        table_scale=width**0.5,
        projection=Linear(tensors.matrix(f"{PER_LAYER_PROJECTION.gguf}.weight", total, hyper.width)),
        projection_scale=hyper.width**-0.5,
        norm=Norm(tensors.floats(f"{PER_LAYER_NORM.gguf}.weight", (width,)), None, hyper.eps),
    )


def streams(tensors: Tensors, hyper: HyperParameters, facts: ArchitectureFacts) -> Streams | None:
    """The projections of the streams; None in architectures without alternating updates."""
    if STREAM_PROJECTIONS not in facts.model_tensors:
        return None

    def projections(stem: str) -> tuple[Linear, ...]:
        return tuple(map(Linear, tensors.matrices(f"{stem}.weight", STREAMS - 1, hyper.width, hyper.width)))

    return Streams(projections(STREAM_PROJECTIONS.gguf), projections(STREAM_UNEMBEDDINGS.gguf))


def read_layer(reader: LayerReader) -> Layer:
    """A layer with all its parts. Raises ModelFileError and UnsupportedModelError."""
    attention, feed_forward, recurrent = _attention(reader), _feed_forward(reader), read_recurrent(reader)
    if attention is None and feed_forward is None and recurrent is None:
        what = f"has nothing in layer {reader.index}, neither a mixer nor a feed-forward"
        reader.tensors.file.fail(f"{what}; get another conversion of the model")
    return replace(
        reader.layer(attention, feed_forward),
        recurrent=recurrent,
        per_layer_input=_per_layer_input(reader),
        output_scale=_output_scale(reader),
        laurel=_laurel(reader),
        altup=_altup(reader),
    )


def _attention(reader: LayerReader) -> Attention | LatentAttention | None:
    if reader.attention_settings is None:
        return None
    is_latent = isinstance(reader.attention_settings, LatentSettings)
    return read_latent_attention(reader) if is_latent else reader.attention()


def _feed_forward(reader: LayerReader) -> FeedForward | MixtureOfExperts | None:
    router = reader.facts.router(reader.hyper, reader.index)
    if router:
        return ExpertReader(reader, router).mixture()
    if "ffn_up" not in reader.facts.tensors:
        return None
    has_own_norm = reader.facts.ffn_norm_stem in reader.facts.tensors and reader.facts.ffn_norm_stem != ATTN_NORM.gguf
    if not reader.sizes.ffn and has_own_norm:
        key = reader.hyper.key("feed_forward_length")
        reader.tensors.file.fail(f"key {key} gives layer {reader.index} no feed-forward; get another conversion")
    return reader.feed_forward() if reader.sizes.ffn else None


def _per_layer_input(reader: LayerReader) -> PerLayerInput | None:
    if not reader.hyper.per_layer_width or "inp_gate" not in reader.facts.tensors:
        return None
    return PerLayerInput(reader.required("inp_gate"), reader.required("proj"), reader.required_norm("post_norm"))


def _output_scale(reader: LayerReader) -> float:
    """The factor of the hidden state; 1 where the layer has none."""
    if "layer_output_scale" not in reader.facts.tensors or not reader.has("layer_output_scale"):
        return 1.0
    tensor = reader.floats("layer_output_scale")
    scale = float(np.ascontiguousarray(tensor.data).view("<f4")[0])
    if not isfinite(scale):
        reader.tensors.file.fail(f"tensor {tensor.name} is {scale}; get another conversion of the model")
    return scale


def _laurel(reader: LayerReader) -> Laurel | None:
    if "laurel_l" not in reader.facts.tensors:
        return None
    return Laurel(reader.required("laurel_l"), reader.required("laurel_r"), reader.required_norm("laurel_post_norm"))


def _altup(reader: LayerReader) -> AltUp | None:
    if "altup_router" not in reader.facts.tensors:
        return None
    return AltUp(
        norm=reader.required_norm("altup_router_norm"),
        router=reader.required("altup_router"),
        predict=reader.floats("altup_predict_coef"),
        correct=reader.floats("altup_correct_coef"),
        correct_scale=reader.floats("altup_correct_scale"),
    )
