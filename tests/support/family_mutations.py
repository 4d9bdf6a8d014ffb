"""Changes of a model file that leave it well-formed: other keys, other tensors.

Each change has a label, such as "gemma2.attention.head_count is 0".
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gguf import GGUFReader

from support import gguf_bytes as raw
from support.gguf_bytes import RawTensor
from support.gguf_parts import GGUFParts

_F32, _F16, _BF16, _I32, _Q8_0 = 0, 1, 30, 26, 8
_WHOLE = {raw.U8: 8, raw.I8: 8, raw.U16: 16, raw.I16: 16, raw.U32: 32, raw.I32: 32, raw.U64: 64, raw.I64: 64}
_SIGNED = (raw.I8, raw.I16, raw.I32, raw.I64)


@dataclass(frozen=True)
class Change:
    """What stands in place of the pair or the tensor `name`: pairs, or tensors, by name."""

    label: str
    name: str
    pairs: dict[str, bytes] = field(default_factory=dict)
    tensors: dict[str, RawTensor] = field(default_factory=dict)


def changed(parts: GGUFParts, made: Sequence[Change]) -> GGUFParts:
    """The parts of a file after some changes."""
    pairs, tensors = dict(parts.pairs), dict(parts.tensors)
    for change in made:
        pairs.pop(change.name, None)
        tensors.pop(change.name, None)
        pairs |= change.pairs
        tensors |= change.tensors
    return GGUFParts(pairs, tensors)


def changes(path: Path) -> list[Change]:
    """Every change of every key of the architecture, and of every tensor."""
    parts, reader = GGUFParts.read(path), GGUFReader(path)
    prefix = f"{reader.fields['general.architecture'].contents()}."
    made = []
    for key, stored in reader.fields.items():
        if key.startswith(prefix):
            kinds = [int(kind) for kind in stored.types]
            for label, value in _values(key, kinds, stored.contents()):
                made.append(Change(f"{key} {label}", key, {} if value is None else {key: value}))
    for name, tensor in parts.tensors.items():
        for label, others in _tensors(tensor):
            made.append(Change(f"{name} {label}", name, tensors={str(other.name): other for other in others}))
    return made


def _values(key: str, kinds: list[int], old: Any) -> Iterator[tuple[str, bytes | None]]:
    """Other pairs for a key whose value has these kinds: the kind, and for an array that of its items."""
    yield "is not there", None
    yield "is text", raw.string_pair(key, "many")
    yield "is an empty array", raw.pair(key, raw.ARRAY, raw.array(raw.U32, []))
    if kinds[0] != raw.ARRAY:
        for value in _scalars(kinds[0], old):
            yield f"is {value!r}", raw.pair(key, kinds[0], _encode(kinds[0], value))
        if kinds[0] != raw.STRING:
            yield "is true", raw.pair(key, raw.BOOL, raw.number(raw.BOOL, True))
            for n in (1, 3, 6):
                yield f"is {n} times {old}", raw.pair(key, raw.ARRAY, raw.array(kinds[0], [_encode(kinds[0], old)] * n))
        return
    kind = kinds[1]
    for label, items in (("is shorter", old[:-1]), ("is longer", [*old, old[-1]]), ("is reversed", old[::-1])):
        yield label, raw.pair(key, raw.ARRAY, raw.array(kind, [_encode(kind, item) for item in items]))
    for value in _scalars(kind, old[0]):
        for label, items in (("begins with", [value, *old[1:]]), ("is all", [value] * len(old)), ("is", [value])):
            encoded = [_encode(kind, item) for item in items]
            yield (
                f"{label} {value!r}",
                raw.pair(key, raw.ARRAY, raw.array(kind, encoded))
                if label != "is"
                else (raw.pair(key, kind, encoded[0])),
            )
    yield "is of text", raw.strings_pair(key, ["many"] * len(old))


def _scalars(kind: int, old: Any) -> list[Any]:
    """Other values of a kind: none, small, near the old one, huge, and what is no number."""
    if kind == raw.STRING:
        return ["", "none", "linear", "yarn", "longrope", "a" * 70000]
    if kind == raw.BOOL:
        return [not old]
    if kind in (raw.F32, raw.F64):
        return [0.0, -old or -1.0, old * 2 or 1.0, 1e-30, 1e30, math.inf, math.nan]
    most = 2 ** (_WHOLE[kind] - (kind in _SIGNED)) - 1
    values = [0, 1, 2, 3, old + 1, max(0, old - 1), old * 2, old // 2, 2**16, most // 2 + 1, most]
    return [value for value in dict.fromkeys(values) if value != old and value <= most]


def _encode(kind: int, value: Any) -> bytes:
    return raw.text(value) if kind == raw.STRING else raw.number(kind, value)


def _tensors(tensor: RawTensor) -> Iterator[tuple[str, list[RawTensor]]]:
    """What may stand in place of a tensor."""
    name, dims, data = str(tensor.name), tensor.dims, tensor.data
    yield "is not there", []
    yield "has another name", [replace(tensor, name=name.replace("weight", "weights"))]
    yield "is of another layer", [replace(tensor, name=name.replace("blk.0.", "blk.99."))]
    for kind in (_F16, _BF16, _I32, _Q8_0, 99):
        yield f"has type {kind}", [replace(tensor, kind=kind)]
    yield "has an empty dimension", [replace(tensor, dims=(0, *dims[1:]), data=b"")]
    yield "has one dimension more", [replace(tensor, dims=(*dims, 1))]
    yield "has five dimensions", [replace(tensor, dims=(*dims, 1, 1, 1))]
    yield (
        "is half",
        [replace(tensor, dims=(*dims[:-1], dims[-1] // 2), data=data[: len(data) // dims[-1] * (dims[-1] // 2)])],
    )
    yield "is twice", [replace(tensor, dims=(*dims[:-1], dims[-1] * 2), data=data * 2)]
    yield "is not a number", [replace(tensor, data=b"\xff" * len(data))]
    yield "is huge", [replace(tensor, data=b"\x7f\x7f\x7f\x7f" * (len(data) // 4))]
    if len(dims) > 1:
        yield "is transposed", [replace(tensor, dims=dims[::-1])]
        yield "is flat", [replace(tensor, dims=(math.prod(dims),))]
        bias = RawTensor(name.replace("weight", "bias"), (dims[-1],), _F32, 0, data[: 4 * dims[-1]])
        yield "has a bias", [tensor, bias]
        yield "has a short bias", [tensor, replace(bias, dims=(1,))]
