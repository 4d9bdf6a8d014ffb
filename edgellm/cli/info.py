"""`edgellm info`: shows what is in a model file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

import click
import numpy as np

from edgellm.cli.shell_completion import names_of_files
from edgellm.fmt import count, counted, printable, size, table
from edgellm.gguf import GGUFFile, Tensor
from edgellm.gguf.imatrix import Imatrix, find_imatrix
from edgellm.info import DecodeSpeed, ExpertInfo, ModelInfo, TokenizerInfo, describe
from edgellm.models import resolve
from edgellm.system.machine import available_memory

_ATTENTION = {"attention", "latent attention"}

_TOKEN_TYPES = {1: "", 2: "unknown", 3: "control", 4: "user-defined", 5: "unused", 6: "byte"}


@click.command("info")
@click.argument("model", shell_complete=names_of_files)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--tensors", is_flag=True, help="List every tensor.")
@click.option("--tokens", is_flag=True, help="List the vocabulary.")
def command(model: str, as_json: bool, tensors: bool, tokens: bool) -> None:
    """Show what is in a model file: architecture, parameters, types, context, tokenizer.

    Also of an importance matrix: its texts, its tensors, and the experts that saw the fewest tokens.
    """
    path = resolve(model)
    if found := find_imatrix(path):
        _show_imatrix(found, as_json, tensors)
        return
    with GGUFFile.open(path) as file:
        if as_json:
            click.echo(json.dumps(_as_json(file, tensors, tokens), indent=2))
        else:
            click.echo("\n".join(_as_text(file, tensors, tokens)))


def _show_imatrix(found: Imatrix, as_json: bool, tensors: bool) -> None:
    from edgellm.cli import imatrix_info  # imports the converters

    if as_json:
        click.echo(json.dumps(imatrix_info.as_json(found, tensors), indent=2))
    else:
        click.echo("\n".join(imatrix_info.as_text(found, tensors)))


def _as_json(file: GGUFFile, tensors: bool, tokens: bool) -> dict[str, object]:
    found: dict[str, object] = asdict(describe(file))
    if tensors:
        found["tensors"] = [
            {"name": t.name, "type": t.type.name, "shape": t.shape, "bytes": t.nbytes, "offset": t.offset}
            for t in file.tensors.values()
        ]
    if tokens:
        found["tokens"] = list(_vocabulary(file))
    return found


def _as_text(file: GGUFFile, tensors: bool, tokens: bool) -> Iterator[str]:
    info = describe(file)
    rows = [(label, printable(value, 400)) for label, value in _facts(info) if value]
    width = max(len(label) for label, _ in rows)
    yield from (f"{label:{width}}  {value}" for label, value in rows)
    if info.types:
        yield ""
        yield from table(("type", "tensors", "parameters", "size", "bits/weight"), _type_rows(info))
    if tensors:
        yield ""
        yield from table(("tensor", "type", "shape", "size"), map(_tensor_row, file.tensors.values()))
    if tokens:
        yield ""
        yield from table(("id", "kind", "token"), _token_rows(file))


def _facts(info: ModelInfo) -> Iterator[tuple[str, str]]:
    yield "file", info.files[0] + (f" and {len(info.files) - 1} more" if len(info.files) > 1 else "")
    yield "size", f"{size(info.bytes)}, GGUF version {info.version}"
    yield "name", info.name or ""
    yield "author", info.author or ""
    yield "license", info.license or ""
    yield "architecture", info.architecture
    active = f", {count(info.active_parameters)} active" if info.active_parameters != info.parameters else ""
    predicting = f", {count(n)} for multi-token prediction" if (n := info.prediction_parameters) else ""
    yield "parameters", f"{count(info.parameters)}{active}{predicting}" if info.parameters else "none in this file"
    yield "experts", _experts(info.experts) if info.experts else ""
    use = "which --draft auto uses" if info.drafts else "not computed"
    more = f", and {info.prediction_layers} for multi-token prediction, {use}" if info.prediction_layers else ""
    yield "layers", f"{info.layers}{_layer_kinds(info)}{more}" if info.layers else ""
    window = f", attention window {info.window:,}" if info.window and info.window < (info.context_length or 0) else ""
    yield "context", f"{info.context_length:,} tokens{window}" if info.context_length else ""
    beyond = info.kv_bytes_beyond_window
    windowed = f", {size(beyond)} beyond the window" if beyond is not None else ""
    yield "KV cache", f"{size(info.kv_bytes_per_token)} per token (f16){windowed}" if info.kv_bytes_per_token else ""
    of_layers = f"({counted(_recurrent_layers(info), 'recurrent layer')})"
    yield "state", f"{size(info.state_bytes)} per sequence {of_layers}" if info.state_bytes else ""
    yield "imatrix", _imatrix(info.quantize)
    yield "GPTQ", str(info.quantize.get("gptq.dataset", ""))
    yield "tokenizer", _tokenizer(info.tokenizer) if info.tokenizer else "none"
    if info.tokenizer:
        special = info.tokenizer.special.items()
        yield "special", ", ".join(f"{role} {token.id} {token.text}" for role, token in special)
    yield "template", "yes" if info.chat_template else "none"
    yield "decode", _speed(info.decode, info.bytes) if info.decode else ""
    yield "engine", f"edgellm's own does not run it: {info.unsupported}" if info.unsupported and info.types else ""


def _imatrix(quantize: Mapping[str, str | int]) -> str:
    """The importance matrix that weighted the errors, its text and the chunks of it; empty if there was none."""
    of = f", of {text}" if (text := quantize.get("imatrix.dataset")) else ""
    chunks = quantize.get("imatrix.chunks_count")
    read = f", {counted(chunks, 'chunk')}" if isinstance(chunks, int) else ""
    return f"{quantize['imatrix.file']}{of}{read}" if "imatrix.file" in quantize else ""


def _layer_kinds(info: ModelInfo) -> str:
    """The number of layers of each kind; empty where all layers have attention alone."""
    kinds = info.layer_kinds or {}
    return "" if kinds.keys() <= _ATTENTION else f": {', '.join(f'{n:,} {kind}' for kind, n in kinds.items())}"


def _recurrent_layers(info: ModelInfo) -> int:
    return sum(n for kind, n in (info.layer_kinds or {}).items() if kind not in {*_ATTENTION, "feed-forward"})


def _experts(experts: ExpertInfo) -> str:
    shared = f", {experts.shared} shared by all tokens" if experts.shared else ""
    return f"{experts.count:,} in a layer, {experts.used:,} used for each token{shared}"


def _speed(decode: DecodeSpeed, nbytes: int) -> str:
    if decode.tps is not None:
        speed = f"{decode.tps:,.{0 if decode.tps >= 100 else 1}f} tokens/s"
        return f"about {speed} expected with {counted(decode.threads, 'thread')}"
    if nbytes > available_memory():
        return "at the speed of the disk, as the file is larger than the free memory"
    return "speed not known yet: `edgellm plan` measures this machine and predicts it"


def _tokenizer(tokenizer: TokenizerInfo) -> str:
    pre = f" ({tokenizer.pre})" if tokenizer.pre else ""
    return f"{tokenizer.model}{pre}, {tokenizer.tokens:,} tokens"


def _type_rows(info: ModelInfo) -> Iterator[tuple[str, ...]]:
    for share in info.types:
        bits = f"{share.bits_per_weight:.2f}"
        yield share.type, str(share.tensors), count(share.parameters), size(share.bytes), bits


def _tensor_row(tensor: Tensor) -> tuple[str, ...]:
    shape = " x ".join(map(str, tensor.shape))
    return printable(tensor.name), tensor.type.name, shape, size(tensor.nbytes)


def _vocabulary(file: GGUFFile) -> Sequence[str]:
    return file.get_strings("tokenizer.ggml.tokens", ())


def _token_rows(file: GGUFFile) -> Iterator[tuple[str, ...]]:
    tokens = _vocabulary(file)
    kinds = file.get_array("tokenizer.ggml.token_type", int, np.zeros(0, np.int32)).tolist()
    kinds += [1] * (len(tokens) - len(kinds))
    for number, (token, kind) in enumerate(zip(tokens, kinds, strict=False)):
        yield str(number), _TOKEN_TYPES.get(kind, str(kind)), printable(token)
