"""The head for multi-token prediction (MTP, arXiv 2412.19437, section 2.2) that a model's file has behind its layers.

Layer L of a model with L layers, of the same kind as those with attention, reads

    x = eh_proj [enorm(embedding of the next token) | hnorm(the model's state behind its last norm)]

and its state behind `shared_head_norm` goes to the output matrix. It has the model's embedding, last norm and output
matrix where the file has none for it. The state is taken behind the last norm as in llama.cpp (`qwen35.cpp`,
`glm4-moe.cpp`, `deepseek2.cpp`) and in transformers (`MtpLayer`).
"""

import re

from edgellm.arch.blocks import Layer, Linear, Norm
from edgellm.arch.description import Description, ModelScales
from edgellm.arch.facts import ArchitectureFacts
from edgellm.arch.head import Head, PairEntry, pair_norms
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.layers import LayerReader
from edgellm.arch.per_layer import read_layer
from edgellm.arch.refuse import refuse
from edgellm.arch.tensors import Tensors
from edgellm.gguf import GGUFFile, Tensor
from edgellm.gguf.auxiliary import auxiliary_kind

_BLOCK = re.compile(r"blk\.([0-9]{1,9})\.")
"""A tensor of a block, with the block's number, whose digits are limited: damaged files may have thousands."""

_KNOWN = ("qwen35", "qwen35moe", "qwen3next", "glm4moe", "deepseek2")
"""Architectures whose head was compared with llama.cpp's. Files of others may have one, of which nothing is known."""


def prediction_layers(file: GGUFFile) -> int:
    """How many of the last blocks of a file are for multi-token prediction; 0 where all are those of a draft head."""
    is_model = auxiliary_kind(file.metadata) is None
    return (file.hint(f"{file.architecture}.nextn_predict_layers", int) or 0) if is_model else 0


def prediction_tensors(file: GGUFFile) -> dict[str, Tensor]:
    """The tensors of these blocks, by name."""
    blocks, predicting = file.hint(f"{file.architecture}.block_count", int), prediction_layers(file)
    if blocks is None or not predicting:
        return {}
    numbers = {name: _BLOCK.match(name) for name in file.tensors}
    return {
        name: file.tensors[name] for name, block in numbers.items() if block and int(block[1]) >= blocks - predicting
    }


def read_prediction_head(hyper: HyperParameters, facts: ArchitectureFacts, model: Description) -> Head | None:
    """The head of a file whose model is `model`; None if it has none, or one that is not known.

    Of several layers the first is the head. Raises ModelFileError and UnsupportedModelError.
    """
    tensors, index = Tensors(hyper.file), hyper.layer_count
    if facts.name not in _KNOWN or not any(name.startswith(f"blk.{index}.") for name in hyper.file.tensors):
        return None
    layer = read_layer(LayerReader(tensors, hyper, facts, index))
    _check(hyper, layer)
    reader = _PredictionTensors(tensors, hyper, index)
    embedding, output = reader.matrix("embed_tokens"), reader.matrix("shared_head_head")
    head = Description(
        **{name: getattr(model, name) for name in ModelScales.__dataclass_fields__},
        width=model.width,
        vocab=model.vocab,
        context_length=model.context_length,
        embedding=embedding.weight if embedding else model.embedding,
        layers=(layer,),
        output_norm=reader.norm("shared_head_norm") if reader.has("shared_head_norm") else model.output_norm,
        output=output or model.output,
        entry=reader.entry(),
    )
    return Head("mtp", head)


def _check(hyper: HyperParameters, layer: Layer) -> None:
    """Refuse a head whose state could not go back to any length, or whose positions are not those of a text."""
    attention = layer.attention
    if attention is None or layer.recurrent:
        refuse(hyper.file, "a layer for multi-token prediction without attention is not supported")
    if attention.window or attention.temperature or attention.kv_layer is not None:
        what = "a window, queries that grow with the position, or keys of another layer"
        refuse(hyper.file, f"a layer for multi-token prediction with {what} is not supported")


class _PredictionTensors:
    """Takes the tensors `nextn` of a layer."""

    def __init__(self, tensors: Tensors, hyper: HyperParameters, index: int) -> None:
        self._tensors, self._hyper, self._stem = tensors, hyper, f"blk.{index}.nextn"

    def has(self, name: str) -> bool:
        """Whether the file has a tensor."""
        return f"{self._stem}.{name}.weight" in self._tensors

    def norm(self, name: str) -> Norm:
        """A norm of hidden states."""
        weight = self._tensors.floats(f"{self._stem}.{name}.weight", (self._hyper.width,))
        return Norm(weight, None, self._hyper.eps, self._hyper.norm_kind)

    def matrix(self, name: str) -> Linear | None:
        """A matrix (vocab, width); None if the file has none."""
        return self._linear(name, self._hyper.vocab, self._hyper.width) if self.has(name) else None

    def entry(self) -> PairEntry:
        """How x is made."""
        norms = pair_norms(self.norm("enorm"), self.norm("hnorm"))
        return PairEntry(norms, self._linear("eh_proj", self._hyper.width, 2 * self._hyper.width))

    def _linear(self, name: str, rows: int, columns: int) -> Linear:
        stem = f"{self._stem}.{name}"
        return Linear(self._tensors.matrix(f"{stem}.weight", rows, columns), factor=self._tensors.factors(stem, 1))
