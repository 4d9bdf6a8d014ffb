"""EAGLE-3 (arXiv 2503.01840): a draft head that reads the hidden states of three layers of its target.

The GGUF file is that of llama.cpp (src/models/eagle3.cpp). With e the embedding of token p + 1 and t the hidden states
of the target at position p:

    g = fc [t_low | t_mid | t_high]                      enc.output_norm before it with `norm_before_fc`
    r = attn_norm_2(g) with `norm_before_residual`, else g
    x = r + attention of [attn_norm(e) | attn_norm_2(g)]
    x = x + feed_forward(ffn_norm(x))
    logits = output(output_norm(x))                      of the tokens d2t

x takes the place of g in the row of the next draft, or output_norm(x) with `norm_output` (EAGLE-3.1, arXiv 2605.09992;
the key is edgellm's own). `target_layers` are the numbers of layers whose input is read: 1 … layers of the target.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from edgellm.arch.blocks import Layer, Linear, Norm, NormKind
from edgellm.arch.description import Description
from edgellm.arch.facts import ArchitectureFacts
from edgellm.arch.head import FeatureEncoder, Head, PairEntry, pair_norms
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.layers import LayerReader
from edgellm.arch.positions import RopeType
from edgellm.arch.refuse import refuse
from edgellm.arch.tensor_names import ATTN_NORM, FFN_NORM, GATED_FEED_FORWARD_TENSORS, TensorFacts
from edgellm.arch.tensors import Tensors
from edgellm.fmt import counted
from edgellm.gguf import GGUFFile, Tensor

ARCHITECTURE = "eagle3"
TAPS = 3

NORMS = (ATTN_NORM, TensorFacts("attn_norm_2", "hidden_norm", None, ("width",)))
"""The norms of the embedding and of the features."""

FACTS = ArchitectureFacts(
    name=ARCHITECTURE,
    rope_type=RopeType.NORM,
    block_tensors=(
        TensorFacts("attn_q", "self_attn.q_proj", None, ("q_width", "twice_width")),
        TensorFacts("attn_k", "self_attn.k_proj", None, ("k_width", "twice_width")),
        TensorFacts("attn_v", "self_attn.v_proj", None, ("v_width", "twice_width")),
        TensorFacts("attn_output", "self_attn.o_proj", None, ("width", "attention_width")),
        *GATED_FEED_FORWARD_TENSORS,
        FFN_NORM,
    ),
    writes_vocab_size=True,
)
"""The layer but for NORMS, which belong to the head's `PairEntry`."""


class _HeadParameters(HyperParameters):
    """The sizes of a head, whose tokens are the target's: its file may have no embedding."""

    def __init__(self, file: GGUFFile, target: Description) -> None:
        self._target = target
        super().__init__(file, FACTS.rope_type, NormKind.RMS)
        self.context_length = target.context_length  # positions are relative, so that the head works beyond its own

    def _vocabulary(self) -> int:
        tokens = self.file.get_strings("tokenizer.ggml.tokens", None)
        if tokens is not None and len(tokens) != self._target.vocab:
            sizes = f"{counted(len(tokens), 'token')}, and this one has {self._target.vocab:,}"
            self.file.fail(f"is a head for a model of {sizes}; choose a head that was made for it")
        return self._target.vocab


def read_eagle3_head(file: GGUFFile, target: Description) -> Head:
    """The head of a file, completely checked.

    Raises ModelFileError where metadata and tensors contradict each other or the target, UnsupportedModelError for a
    kind of head that edgellm does not compute.
    """
    hyper, tensors = _HeadParameters(file, target), Tensors(file)
    _check_kind(hyper, target)
    taps = _taps(hyper, len(target.layers))
    tokens = _tokens(hyper, tensors)
    features = TAPS * target.width
    norm_before_fc = file.get_bool(hyper.key("norm_before_fc"), False)
    encoder = FeatureEncoder(
        norm=_norm(hyper, tensors, "enc.output_norm", features) if norm_before_fc else None,
        projection=_matrix(tensors, "fc", hyper.width, features),
    )
    model = _describe(hyper, tensors, target, tokens)
    tensors.finish("rope_freqs.weight")
    return Head("eagle", model, taps, encoder, tokens, file.get_bool(hyper.key("norm_output"), False))


def _check_kind(hyper: HyperParameters, target: Description) -> None:
    """Refuse heads of several layers or with a window, and those for a target of another width."""
    if hyper.layer_count != 1 or hyper.prediction_layers:
        refuse(hyper.file, f"EAGLE-3 heads of {hyper.layer_count} layers are not supported, only those of one")
    if hyper.integer("attention.sliding_window", 0):
        refuse(hyper.file, "EAGLE-3 heads with a window of attention are not supported")
    if hyper.width == TAPS * target.width:  # which rows have features, and which the target's states, is told by width
        refuse(hyper.file, f"EAGLE-3 heads {TAPS} times as wide as their target are not supported")
    width = hyper.integer("target_hidden_size")
    if width != target.width:
        sizes = f"width {width:,}, and this one has {target.width:,}"
        hyper.file.fail(f"is a head for a model of {sizes}; choose a head that was made for it")


def _taps(hyper: HyperParameters, layers: int) -> tuple[int, ...]:
    """The target's layers whose results the head reads."""
    key = hyper.key("target_layers")
    inputs = hyper.file.get_integers(key, TAPS)
    if inputs[0] < 1 or any(i >= j for i, j in pairwise(inputs)):
        hyper.file.fail(f"key {key} is {list(inputs)}, not numbers of the target's layers from 1 on, in order")
    if inputs[-1] > layers:
        sizes = f"at least {counted(inputs[-1], 'layer')}, and this one has {layers}"
        hyper.file.fail(f"is a head for a model of {sizes}; choose a head that was made for it")
    return tuple(each - 1 for each in inputs)


def _tokens(hyper: HyperParameters, tensors: Tensors) -> NDArray[np.int32] | None:
    """The target's id of each logit; None for a file without d2t, whose logits are those of all tokens."""
    found = hyper.file.tensors.get("d2t")
    if found is None:
        return None
    tensors.drop("d2t")
    if found.type.name != "I64" or len(found.shape) != 1:
        hyper.file.fail(
            f"tensor d2t is {found.type.name} {list(found.shape)}, not a row of I64; get another conversion of the head"
        )
    ids = found.data.view("<i8")
    if ids.min(initial=0) < 0 or ids.max(initial=0) >= hyper.vocab or len(np.unique(ids)) != len(ids):
        hyper.file.fail(f"tensor d2t does not hold different ids of the target's {hyper.vocab} tokens")
    return ids.astype(np.int32)


def _describe(
    hyper: HyperParameters, tensors: Tensors, target: Description, tokens: NDArray[np.int32] | None
) -> Description:
    """The head as a model of one layer. Embedding and output matrix are the target's where the file has none."""
    reader = LayerReader(tensors, hyper, FACTS, 0)
    norms = pair_norms(*(_norm(hyper, tensors, f"blk.0.{each.gguf}", hyper.width) for each in NORMS))
    normed_residual = hyper.file.get_bool(hyper.key("norm_before_residual"), False)
    return Description(
        width=hyper.width,
        vocab=hyper.vocab,
        context_length=hyper.context_length,
        embedding=_embedding(hyper, tensors, target),
        entry=PairEntry(norms, None, normed_residual),
        layers=(Layer(reader.attention(), reader.feed_forward()),),
        output_norm=_norm(hyper, tensors, "output_norm", hyper.width),
        output=_output(hyper, tensors, target, tokens),
    )


def _embedding(hyper: HyperParameters, tensors: Tensors, target: Description) -> Tensor:
    if "token_embd.weight" in tensors:
        return tensors.matrix("token_embd.weight", hyper.vocab, hyper.width)
    _check_shared(hyper, target, "token_embd")
    return target.embedding


def _output(hyper: HyperParameters, tensors: Tensors, target: Description, tokens: NDArray[np.int32] | None) -> Linear:
    if "output.weight" in tensors:
        return _matrix(tensors, "output", hyper.vocab if tokens is None else len(tokens), hyper.width)
    _check_shared(hyper, target, "output")
    if tokens is not None:
        hyper.file.fail(
            "has a tensor d2t without a tensor output.weight, whose rows it tells; get another conversion of the head"
        )
    return target.output


def _check_shared(hyper: HyperParameters, target: Description, stem: str) -> None:
    """Refuse a file that lacks a matrix where the target's has another width."""
    if hyper.width != target.width:
        hyper.file.fail(
            f"has no tensor {stem}.weight, and that of the target has another width; get another conversion of the head"
        )


def _norm(hyper: HyperParameters, tensors: Tensors, stem: str, width: int) -> Norm:
    return Norm(tensors.floats(f"{stem}.weight", (width,)), None, hyper.eps)


def _matrix(tensors: Tensors, stem: str, rows: int, columns: int) -> Linear:
    return Linear(tensors.matrix(f"{stem}.weight", rows, columns), factor=tensors.factors(stem, 1))
