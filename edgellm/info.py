"""The contents of a model file, for `edgellm info`. Works for every architecture, and for files without weights."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from edgellm.arch import describe as describe_model
from edgellm.arch import head_kind
from edgellm.arch.blocks import Layer
from edgellm.arch.description import Description
from edgellm.arch.layer_kinds import layer_kinds
from edgellm.arch.prediction import prediction_layers, prediction_tensors
from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path
from edgellm.gguf import GGUFFile, StringArray
from edgellm.gguf.check import special_ids
from edgellm.options import LoadOptions
from edgellm.perf.machine_profile import load_profile
from edgellm.perf.roofline import Roofline, decode_tps
from edgellm.system.machine import available_memory, default_threads

# Architectures with one of these keys do not cache one key and one value per head, layer and token.
_OTHER_CACHE_KEYS = (
    "attention.kv_lora_rank",
    "attention.shared_kv_layers",
    "full_attention_interval",
    "wkv.head_size",
)


_QUANTIZE = "quantize."


@dataclass(frozen=True)
class TypeShare:
    """The weights of one tensor type."""

    type: str
    tensors: int
    parameters: int
    bytes: int
    bits_per_weight: float


@dataclass(frozen=True)
class SpecialToken:
    """A token with a role, such as BOS; `text` is empty if the vocabulary has no such id."""

    id: int
    text: str


@dataclass(frozen=True)
class TokenizerInfo:
    """The tokenizer in the file. `special` maps roles (bos, eos, ...) to tokens."""

    model: str
    pre: str | None
    tokens: int
    special: dict[str, SpecialToken]


@dataclass(frozen=True)
class ExpertInfo:
    """The experts of a layer: how many there are, how many of them compute a token, and how many compute all tokens."""

    count: int
    used: int
    shared: int


@dataclass(frozen=True)
class DecodeSpeed:
    """The expected tokens per second with `threads` threads and an empty context; None if unknown.

    It is known if this machine was measured (`edgellm plan`) and the file fits in memory.
    """

    tps: float | None
    threads: int


@dataclass(frozen=True)
class ModelInfo:
    """The contents of a model file; None for what it does not say. `bytes` is the size of all its `files`.

    `active_parameters` are those that compute a token: without those of experts that it does not use, and without the
    `prediction_parameters`, those of prediction layers. `experts` is None for a model without.

    `layers` does not count the `prediction_layers` behind them, which predict further tokens. `drafts` is "mtp" if the
    first of these can draft for the model, see `edgellm.arch.prediction`.
    `layer_kinds` is the number of layers by what mixes the tokens there: "attention", "latent attention", the kind of a
    recurrent mixer, both, or "feed-forward" for nothing. It is None for a model that edgellm's own engine does not run.
    `kv_bytes_per_token` is the size of f16 keys and values of one token in all layers, `kv_bytes_beyond_window` that in
    layers without a window, None if none has one. `state_bytes` is the size of the state of a sequence in all recurrent
    layers, whatever its length, 0 without such layers and None if unknown. `window` is the length in tokens of
    sliding-window attention. `unsupported` is the reason why edgellm's own engine does not run the model; `decode` is
    then None. `quantize` has the keys `quantize.*`, without that beginning: what the file was quantized with, such as
    the `imatrix.file` and the `gptq.dataset`.
    """

    files: list[str]
    bytes: int
    version: int
    architecture: str
    name: str | None
    author: str | None
    license: str | None
    parameters: int
    active_parameters: int
    prediction_parameters: int
    experts: ExpertInfo | None
    types: list[TypeShare]
    context_length: int | None
    window: int | None
    layers: int | None
    prediction_layers: int
    drafts: str | None
    layer_kinds: dict[str, int] | None
    kv_bytes_per_token: int | None
    kv_bytes_beyond_window: int | None
    state_bytes: int | None
    tokenizer: TokenizerInfo | None
    chat_template: bool
    decode: DecodeSpeed | None
    unsupported: str | None
    quantize: dict[str, str | int]


def describe(file: GGUFFile) -> ModelInfo:
    """Describe an open file. Raises ModelFileError if a value has the wrong type."""
    author = file.hint("general.author", str) or file.hint("general.organization", str)
    model, unsupported = _described(file)
    return ModelInfo(
        files=[str(path) for path in file.paths],
        bytes=file.nbytes,
        version=file.version,
        architecture=file.architecture,
        name=file.hint("general.name", str),
        author=author,
        license=file.hint("general.license", str),
        parameters=sum(tensor.size for tensor in file.tensors.values()),
        active_parameters=_active_parameters(file),
        prediction_parameters=sum(tensor.size for tensor in prediction_tensors(file).values()),
        experts=_experts(file),
        types=_types(file),
        context_length=file.get_int(f"{file.architecture}.context_length", None),
        window=file.hint(f"{file.architecture}.attention.sliding_window", int) or None,
        layers=_layers(file),
        prediction_layers=prediction_layers(file),
        drafts=head_kind(file, model) if model else None,
        layer_kinds=layer_kinds(model) if model else None,
        kv_bytes_per_token=_kv_bytes(model.layers) if model else kv_bytes_per_token(file),
        kv_bytes_beyond_window=_kv_bytes_beyond_window(model) if model else None,
        state_bytes=model.state_bytes if model else None,
        tokenizer=_tokenizer(file),
        chat_template="tokenizer.chat_template" in file.metadata,
        decode=_decode_speed(file, model) if model else None,
        unsupported=unsupported,
        quantize={
            key.removeprefix(_QUANTIZE): value
            for key, value in file.metadata.items()
            if key.startswith(_QUANTIZE) and type(value) in (str, int)
        },
    )


_OF_EXPERTS = re.compile(r"\bffn_(gate|up|down|gate_up)(_exps|\.\d+)\b")
"""Tensors of all experts of a layer, or, in early files, of each one."""


def _experts(file: GGUFFile) -> ExpertInfo | None:
    count = file.hint(f"{file.architecture}.expert_count", int) or 0
    used = file.hint(f"{file.architecture}.expert_used_count", int) or 0
    if not 0 < used <= count:
        return None
    named = file.hint(f"{file.architecture}.expert_shared_count", int) or 0
    return ExpertInfo(count, used, named or int(any("_shexp." in name for name in file.tensors)))


def _active_parameters(file: GGUFFile) -> int:
    experts, unused = _experts(file), prediction_tensors(file)
    total = 0
    for name, tensor in file.tensors.items():
        if name in unused:
            continue
        of_experts = experts if _OF_EXPERTS.search(name) else None
        total += tensor.size * of_experts.used // of_experts.count if of_experts else tensor.size
    return total


def _layers(file: GGUFFile) -> int | None:
    blocks = file.get_int(f"{file.architecture}.block_count", None)
    return None if blocks is None else blocks - prediction_layers(file)


def _types(file: GGUFFile) -> list[TypeShare]:
    """The tensor types, by falling size."""
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for tensor in file.tensors.values():
        for i, amount in enumerate((1, tensor.size, tensor.nbytes)):
            sums[tensor.type.name][i] += amount
    shares = [TypeShare(name, n, size, b, round(8 * b / size, 4)) for name, (n, size, b) in sums.items()]
    return sorted(shares, key=lambda share: -share.bytes)


def kv_bytes_per_token(file: GGUFFile) -> int | None:
    """Bytes of float16 keys and values of one token in all layers; None if unknown.

    The number of key-value heads of all layers times the length of key and value.
    """
    arch = file.architecture
    if any(f"{arch}.{key}" in file.metadata for key in _OTHER_CACHE_KEYS):
        return None
    query_heads = file.metadata.get(f"{arch}.attention.head_count")
    heads = query_heads if type(query_heads) is int else 0  # an array if it differs between layers
    width = file.get_int(f"{arch}.embedding_length", 0)
    length = width // heads if heads > 0 else 0
    key = file.get_int(f"{arch}.attention.key_length", length)
    value = file.get_int(f"{arch}.attention.value_length", length)
    total = 2 * _kv_heads(file, heads) * (key + value)
    return total if total > 0 else None


def _kv_heads(file: GGUFFile, heads: int) -> int:
    """Key-value heads of all layers together; by default each layer has as many as query heads."""
    key = f"{file.architecture}.attention.head_count_kv"
    if isinstance(file.metadata.get(key), np.ndarray):
        return int(file.get_array(key, int).sum())
    return file.get_int(f"{file.architecture}.block_count", 0) * file.get_int(key, heads)


def _described(file: GGUFFile) -> tuple[Description | None, str | None]:
    """The description of the file's model; or None, and why edgellm's own engine does not run it."""
    try:
        return describe_model(file), None
    except EdgeLLMError as error:
        return None, str(error).removeprefix(f"{shown_path(file.path)}: ")


def _kv_bytes(layers: Iterable[Layer]) -> int:
    """Bytes of float16 keys and values of one token in layers that have their own."""
    attentions = [layer.attention for layer in layers if layer.attention]
    return sum(
        2 * each.kv_heads * (each.key_dim + each.stored_value_dim) for each in attentions if each.kv_layer is None
    )


def _kv_bytes_beyond_window(model: Description) -> int | None:
    """Bytes of one token in the layers that see all tokens; None if no layer has a window."""
    attending = [layer for layer in model.layers if layer.attention]
    everywhere = [layer for layer in attending if layer.attention and layer.attention.window is None]
    return None if len(everywhere) == len(attending) else _kv_bytes(everywhere)


def _decode_speed(file: GGUFFile, model: Description) -> DecodeSpeed:
    threads = default_threads(file.nbytes)
    speeds = load_profile(threads) if file.nbytes <= available_memory() else {}
    roofline = Roofline.of(model, LoadOptions().kv_type)
    return DecodeSpeed(decode_tps(roofline, len(model.layers), speeds, threads), threads)


def _tokenizer(file: GGUFFile) -> TokenizerInfo | None:
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, StringArray):
        return None
    special = {
        _ROLES.get(key, key.removeprefix("tokenizer.ggml.").removesuffix("_token_id")): _special(tokens, value)
        for key, value in special_ids(file)
        if type(value) is int
    }
    model, pre = (file.get_str(f"tokenizer.ggml.{key}", None) for key in ("model", "pre"))
    return TokenizerInfo(model or "unknown", pre, len(tokens), special)


_ROLES = {"tokenizer.ggml.seperator_token_id": "separator"}
"""Roles of special tokens whose keys are spelled otherwise."""


def _special(tokens: StringArray, number: int) -> SpecialToken:
    return SpecialToken(number, tokens[number] if 0 <= number < len(tokens) else "")
