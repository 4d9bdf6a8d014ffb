"""Dense decoder-only transformers: from a file and the facts of its architecture to a description.

The output matrix is the embedding where the file has none. Layers for multi-token prediction are left out.
"""

from edgellm.arch.blocks import Layer, Linear, Norm, NormKind
from edgellm.arch.description import Description
from edgellm.arch.facts import ArchitectureFacts, no_router
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.layers import LayerReader
from edgellm.arch.per_layer import per_layer_embeddings, read_layer, streams
from edgellm.arch.refuse import refuse
from edgellm.arch.rope import FACTOR_TENSORS
from edgellm.arch.tensor_names import EMBEDDING, OUTPUT
from edgellm.arch.tensors import Tensors
from edgellm.gguf import GGUFFile

_OTHER_MODALITIES = ("v.", "a.", "mm.")
"""Prefixes of tensors that encode images and sounds; some files have them beside the text model."""

CELL_SIZES = ("kv_heads", "key_dim", "value_dim", "window")
"""The settings of attention that a layer must have in common with the one whose keys and values it reads."""


def describe_transformer(file: GGUFFile, facts: ArchitectureFacts) -> Description:
    """The description of a file's model. Raises ModelFileError and UnsupportedModelError."""
    if facts.router is no_router and file.get_int(f"{facts.name}.expert_count", 0) > 0:
        refuse(file, f"{facts.name} with a mixture of experts is not supported yet")
    if not file.get_bool(f"{facts.name}.attention.causal", True):
        refuse(file, "models whose tokens see the ones after them write no text; they are not supported")
    hyper = read_hyperparameters(file, facts)
    _check_has_layers(hyper)
    tensors = Tensors(file)
    embedding = tensors.matrix(f"{EMBEDDING.gguf}.weight", hyper.vocab, hyper.width)
    layers = tuple(read_layer(LayerReader(tensors, hyper, facts, i)) for i in range(hyper.layer_count))
    _check_shared_heads(file, layers)
    description = Description(
        **vars(facts.settings(hyper)),
        width=hyper.width,
        vocab=hyper.vocab,
        context_length=hyper.context_length,
        embedding=embedding,
        per_layer_embeddings=per_layer_embeddings(tensors, hyper, facts),
        streams=streams(tensors, hyper, facts),
        embedding_norm=Norm(None, None, hyper.eps, hyper.norm_kind) if facts.norms_embedding else None,
        layers=layers,
        output_norm=_output_norm(tensors, hyper, facts.output_norm_stem),
        output=_output(tensors, hyper) or Linear(embedding),
    )
    _drop_prediction_layers(tensors, hyper)
    tensors.drop_prefix(*_OTHER_MODALITIES)
    tensors.finish(*FACTOR_TENSORS)
    return description


def read_hyperparameters(file: GGUFFile, facts: ArchitectureFacts) -> HyperParameters:
    """The sizes of a file's model. Raises ModelFileError."""
    return HyperParameters(file, facts.rope_type, _norm_kind(file, facts), facts.yarn_truncate, facts.is_hybrid)


def _check_has_layers(hyper: HyperParameters) -> None:
    """Refuse a file with the layer for multi-token prediction alone, as llama.cpp's converter makes with `--mtp`."""
    if hyper.prediction_layers and not any(name.startswith("blk.0.") for name in hyper.file.tensors):
        what = "of a model it has only the layer for multi-token prediction, which cannot run without the others"
        refuse(hyper.file, f"{what}; take a file of the whole model")


def _drop_prediction_layers(tensors: Tensors, hyper: HyperParameters) -> None:
    """Leave out the layers for multi-token prediction, which some files lack; refuse others in their place."""
    for i in range(hyper.layer_count, hyper.layer_count + hyper.prediction_layers):
        if tensors.drop_prefix(f"blk.{i}.") and f"blk.{i}.nextn.eh_proj.weight" not in hyper.file.tensors:
            key = f"key {hyper.key('nextn_predict_layers')} is {hyper.prediction_layers}"
            hyper.file.fail(f"{key}, but layer {i} has no nextn.eh_proj; get another conversion of the model")


def _norm_kind(file: GGUFFile, facts: ArchitectureFacts) -> NormKind:
    """The kind of all norms."""
    is_rms = facts.rms_norm_by_key and f"{facts.name}.attention.layer_norm_rms_epsilon" in file.metadata
    return NormKind.RMS if is_rms else facts.norm_kind


def _check_shared_heads(file: GGUFFile, layers: tuple[Layer, ...]) -> None:
    """Check that layers that read the keys and values of another have its sizes: kernels find these in its pages."""
    for i, layer in enumerate(layers):
        if layer.attention is None or layer.attention.kv_layer is None:
            continue
        own, read = layer.attention, layers[layer.attention.kv_layer].attention
        if read is None or any(getattr(own, name) != getattr(read, name) for name in CELL_SIZES):
            which = f"the keys and values of layer {own.kv_layer}"
            file.fail(f"has layer {i} read {which}, whose heads are others; get another conversion of the model")


def _output_norm(tensors: Tensors, hyper: HyperParameters, stem: str) -> Norm:
    name, bias = f"{stem}.weight", f"{stem}.bias"
    weight = tensors.floats(name, (hyper.width,))
    has_bias = hyper.norm_kind is NormKind.LAYER and bias in tensors
    return Norm(weight, tensors.floats(bias, (hyper.width,)) if has_bias else None, hyper.eps, hyper.norm_kind)


def _output(tensors: Tensors, hyper: HyperParameters) -> Linear | None:
    """The output matrix of the file, if it has one."""
    name, bias = f"{OUTPUT.gguf}.weight", f"{OUTPUT.gguf}.bias"
    if name not in tensors:
        return None
    weight = tensors.matrix(name, hyper.vocab, hyper.width)
    has_bias = bias in tensors
    return Linear(weight, tensors.floats(bias, (hyper.vocab,)) if has_bias else None, tensors.factors(OUTPUT.gguf, 1))
