"""Shaders: WGSL files, put together with the constants of a model and the formats of its tensors."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

FORMATS = ("F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q4_0")
"""Names of the tensor types that there are shaders for."""

CELLS = ("f16", "f32", "q8_0")
"""The types of KV pages that there are shaders for."""

_FOLDER = Path(__file__).parent / "shaders"
_LAST_BINDING = 5

Constant = bool | int | float | str


class Weights(NamedTuple):
    """A tensor as a shader sees it: `rows` of a format, `row_bytes` each."""

    format: str
    rows: int
    row_bytes: int


@cache
def text(name: str) -> str:
    """A file of the folder `shaders`."""
    return (_FOLDER / f"{name}.wgsl").read_text(encoding="utf-8")


def shader(
    parts: Sequence[str],
    constants: Mapping[str, Constant],
    weights: Sequence[Weights] = (),
    first_binding: int = 0,
    enable: Sequence[str] = (),
) -> str:
    """The source of a shader: constants, then the files `parts`, then what unpacks its weights.

    The weights are bound from `first_binding` on, and rows are counted through all of them: `unpack(row, i)` is the
    i-th 32 of a row, an array of 8 vec4<f32>.
    """
    enabled = [f"enable {extension};" for extension in enable]
    told = [_constant(name, value) for name, value in constants.items()]
    unpacking = [text("formats/bits")] if weights else []
    for i, tensor in enumerate(weights):
        name = f"w{i}"
        told.append(_constant(f"ROW_BYTES_{name}", tensor.row_bytes))
        files = text("formats/binding") + text(f"formats/{tensor.format.lower()}")
        unpacking.append(files.replace("BINDING_WEIGHTS", str(first_binding + i)).replace("WEIGHTS", name))
    if weights:
        unpacking.append(_unpack(weights))
    return "\n".join([*enabled, *told, *unpacking, *map(text, parts)])


def _constant(name: str, value: Constant) -> str:
    match value:
        case bool():
            return f"const {name}: bool = {str(value).lower()};"
        case int():
            return f"const {name}: u32 = {value}u;"
        case float():
            return f"const {name}: f32 = {value!r};"
    return f"alias {name} = {value};"


def _unpack(weights: Sequence[Weights]) -> str:
    lines, first = [], 0
    for i, tensor in enumerate(weights):
        call = f"return unpack_w{i}(row - {first}u, i);"
        first += tensor.rows
        lines.append(f"    if (row < {first}u) {{ {call} }}" if i + 1 < len(weights) else f"    {call}")
    return "\n".join(["fn unpack(row: u32, i: u32) -> array<vec4<f32>, 8> {", *lines, "}"])
