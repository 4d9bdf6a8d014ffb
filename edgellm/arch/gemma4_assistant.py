"""The assistant of Gemma 4: a draft head whose layers read the keys and values of its target.

The GGUF file is that of llama.cpp (src/models/gemma4-assistant.cpp). With E the target's embedding of the last token
of the text, W values, and h the target's state behind its last norm at the token before:

    x = nextn.pre_projection [√W · E | h]
    x = layers of Gemma 4, whose attention reads the cells of the target's last layer of the same kind, windowed or not
    n = output_norm(x)
    logits = token_embd n
    h of the next row = nextn.post_projection n

All rows of a round have the position of the last token of the text, and see the cells of those before it: a row has no
cell of its own, so that a window of w tokens shows it w - 1. Checkpoints with `use_ordered_embeddings` compute the
logits of some clusters of tokens alone, of which files know nothing: the logits of all tokens are the same numbers.
"""

from dataclasses import fields, replace
from functools import partial

from edgellm.arch.architectures import gemma4
from edgellm.arch.blocks import Attention, AttentionSettings, Linear, Norm, NormKind
from edgellm.arch.description import Description
from edgellm.arch.head import Head, PairEntry
from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.layers import LayerReader
from edgellm.arch.per_layer import read_layer
from edgellm.arch.refuse import refuse
from edgellm.arch.rope import FACTOR_TENSORS
from edgellm.arch.tensors import Tensors
from edgellm.arch.transformer import CELL_SIZES
from edgellm.gguf import GGUFFile

ARCHITECTURE = "gemma4-assistant"

FACTS = replace(
    gemma4.FACTS,
    name=ARCHITECTURE,
    model_tensors=(),
    checkpoints=tuple(
        replace(each, name=name, defaults={**each.defaults, "hidden_size_per_layer_input": 0})
        for name, each in (
            ("Gemma4AssistantForCausalLM", gemma4.CAUSAL),
            ("Gemma4UnifiedAssistantForCausalLM", gemma4.UNIFIED),
        )
    ),
)
"""The facts of a layer. Its attention depends on the target: see `_attention`."""

_CHOOSE = "choose a head that was made for it"


class _AssistantParameters(HyperParameters):
    """The sizes of an assistant. All its layers count as layers for multi-token prediction, in its file."""

    def __init__(self, file: GGUFFile, target: Description) -> None:
        super().__init__(file, FACTS.rope_type, NormKind.RMS)
        self.context_length = target.context_length  # positions are those of the target

    @property
    def prediction_layers(self) -> int:
        """None beside the layers that it has."""
        return 0


def read_assistant_head(file: GGUFFile, target: Description) -> Head:
    """The assistant of a file, completely checked.

    Raises ModelFileError where metadata and tensors contradict each other or the target, UnsupportedModelError for a
    kind of assistant that edgellm does not compute.
    """
    hyper, tensors = _AssistantParameters(file, target), Tensors(file)
    _check_kind(hyper, target)
    attention = _target_attention(file, target)
    facts = replace(FACTS, attention=partial(_attention, attention))
    pre, post = (f"nextn.{name}_projection.weight" for name in ("pre", "post"))
    embedding = tensors.matrix("token_embd.weight", hyper.vocab, hyper.width)
    model = Description(
        width=hyper.width,
        vocab=hyper.vocab,
        context_length=hyper.context_length,
        embedding=target.embedding,
        embedding_scale=target.embedding_scale,
        entry=PairEntry(None, Linear(tensors.matrix(pre, hyper.width, 2 * target.width))),
        layers=tuple(read_layer(LayerReader(tensors, hyper, facts, i)) for i in range(hyper.layer_count)),
        output_norm=Norm(tensors.floats("output_norm.weight", (hyper.width,)), None, hyper.eps),
        output=Linear(embedding),
        feedback=Linear(tensors.matrix(post, target.width, hyper.width)),
        target_attention=attention,
    )
    tensors.drop_prefix("masked_embd_")
    tensors.finish(*FACTOR_TENSORS)
    return Head("assistant", model)


def _check_kind(hyper: HyperParameters, target: Description) -> None:
    """Refuse assistants with other blocks than those of the published ones, and those of another target."""
    if hyper.experts or hyper.per_layer_width:
        refuse(hyper.file, "assistants of Gemma 4 with experts or per-layer embeddings are not supported")
    for own, of_target, what in (
        (hyper.integer("embedding_length_out"), target.width, "values a token"),
        (hyper.vocab, target.vocab, "tokens"),
    ):
        if own != of_target:
            hyper.file.fail(f"is a head for a model of {own:,} {what}, and this one has {of_target:,}; {_CHOOSE}")


def _target_attention(file: GGUFFile, target: Description) -> tuple[AttentionSettings, ...]:
    """The settings of attention of all layers of the target."""
    found = [layer.attention for layer in target.layers if isinstance(layer.attention, Attention)]
    if len(found) != len(target.layers):
        file.fail(f"is a head for Gemma 4, and this model has layers of another kind; {_CHOOSE}")
    names = [each.name for each in fields(AttentionSettings)]
    return tuple(AttentionSettings(**{name: getattr(each, name) for name in names}) for each in found)


def _attention(target: tuple[AttentionSettings, ...], hyper: HyperParameters, layer: int) -> AttentionSettings:
    """The settings of a layer, which reads the cells of the target's last layer with the same sizes of cells."""
    settings = gemma4.attention_of_kind(hyper, layer)
    if settings.window == 1:
        refuse(hyper.file, "assistants of Gemma 4 with a window of one token are not supported")
    if settings.window and settings.window >= hyper.context_length:
        settings = replace(settings, window=None)  # as of the target
    own = [getattr(settings, name) for name in CELL_SIZES]
    for i in reversed(range(len(target))):
        read = target[i]
        if read.kv_layer is None and [getattr(read, name) for name in CELL_SIZES] == own and not read.chunked:
            return replace(settings, kv_layer=i, window=settings.window and settings.window - 1)
    window = f"a window of {settings.window}" if settings.window else "no window"
    cells = f"{settings.kv_heads} KV heads of {settings.key_dim} values and {window}"
    problem = f"layer {layer} reads keys and values of {cells}, which this model does not have; {_CHOOSE}"
    return hyper.file.fail(problem)
