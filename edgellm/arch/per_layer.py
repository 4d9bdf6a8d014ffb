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

from edgellm.arch.blocks import AltUp, Laurel, Layer, Linear, Norm, PerLayerInput
from edgellm.arch.description import PerLayerEmbeddings, Streams
from edgellm.arch.facts import ArchitectureFacts
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.layers import LayerReader
from edgellm.arch.per_layer_names import (
    PER_LAYER_NORM,
    PER_LAYER_PROJECTION,
    PER_LAYER_TABLE,
    STREAM_PROJECTIONS,
    STREAM_UNEMBEDDINGS,
    STREAMS,
)
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
    return replace(
        reader.layer(),
        per_layer_input=_per_layer_input(reader),
        output_scale=_output_scale(reader),
        laurel=_laurel(reader),
        altup=_altup(reader),
    )


def _per_layer_input(reader: LayerReader) -> PerLayerInput | None:
    if not reader.hyper.per_layer_width or "inp_gate" not in reader.facts.tensors:
        return None
    return PerLayerInput(_projection(reader, "inp_gate"), _projection(reader, "proj"), _norm(reader, "post_norm"))


def _output_scale(reader: LayerReader) -> float:
    """The factor of the hidden state; 1 where the layer has none."""
    if "layer_output_scale" not in reader.facts.tensors or not reader.has("layer_output_scale"):
        return 1.0
    name = _name(reader, "layer_output_scale")
    scale = float(np.ascontiguousarray(reader.tensors.floats(name, (1,)).data).view("<f4")[0])
    if not isfinite(scale):
        reader.tensors.file.fail(f"tensor {name} is {scale}; get another conversion of the model")
    return scale


def _laurel(reader: LayerReader) -> Laurel | None:
    if "laurel_l" not in reader.facts.tensors:
        return None
    return Laurel(_projection(reader, "laurel_l"), _projection(reader, "laurel_r"), _norm(reader, "laurel_post_norm"))


def _altup(reader: LayerReader) -> AltUp | None:
    if "altup_router" not in reader.facts.tensors:
        return None
    floats = reader.tensors.floats
    return AltUp(
        norm=_norm(reader, "altup_router_norm"),
        router=_projection(reader, "altup_router"),
        predict=floats(_name(reader, "altup_predict_coef"), (STREAMS**2, STREAMS)),
        correct=floats(_name(reader, "altup_correct_coef"), (STREAMS, STREAMS)),
        correct_scale=floats(_name(reader, "altup_correct_scale"), (reader.hyper.width,)),
    )


def _name(reader: LayerReader, stem: str) -> str:
    return f"blk.{reader.index}.{stem}.weight"


def _projection(reader: LayerReader, stem: str) -> Linear:
    sizes = {"width": reader.hyper.width, "per_layer_width": reader.hyper.per_layer_width}
    rows, columns = (n if isinstance(n, int) else sizes[n] for n in reader.facts.shapes[stem])
    return reader.matrix(stem, rows, columns)


def _norm(reader: LayerReader, stem: str) -> Norm:
    weight = reader.tensors.floats(_name(reader, stem), (reader.hyper.width,))
    return Norm(weight, None, reader.hyper.eps)
