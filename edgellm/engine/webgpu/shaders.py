"""Shaders: WGSL files, put together with the constants of a model and the formats of its tensors."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

FORMATS = ("F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q4_0")
"""Names of the tensor types that there are shaders for."""

QUADS = ("Q5_K", "Q4_K")
"""Those whose blocks are whole vec4 of words, and are read so."""

CELLS = ("f16", "f32", "q8_0")
"""The types of KV pages that there are shaders for."""

_FOLDER = Path(__file__).parent / "shaders"

_UNPACK = tuple(
    f"fn unpack(row: u32, i: u32) -> array<vec4<f32>, 8> {{\n{body}\n}}"
    for body in (
        "    return unpack_w0(row, i);",
        "    if (row < shape.below_0) { return unpack_w0(row, i); }\n    return unpack_w1(row - shape.below_0, i);",
        "    if (row < shape.below_0) { return unpack_w0(row, i); }\n"
        "    if (row < shape.below_1) { return unpack_w1(row - shape.below_0, i); }\n"
        "    return unpack_w2(row - shape.below_1, i);",
    )
)
"""Of one, two or three tensors below each other."""

Constant = bool | int | float | str


@cache
def text(name: str) -> str:
    """A file of the folder `shaders`."""
    return (_FOLDER / f"{name}.wgsl").read_text(encoding="utf-8")


def shader(
    parts: Sequence[str],
    constants: Mapping[str, Constant],
    formats: Sequence[str] = (),
    first_binding: int = 0,
    enable: Sequence[str] = (),
) -> str:
    """The source of a shader: constants, then what unpacks its weights, then the files `parts`.

    The tensors that make up W, of these formats, are bound from `first_binding` on, and rows are counted through all of
    them: `unpack(row, i)` is the i-th 32 weights of a row, an array of 8 vec4<f32>.
    """
    unpacking = [text("shape"), text("formats/bits")] if formats else []
    for i, name in enumerate(formats):
        files = text("formats/quads" if name in QUADS else "formats/words") + text(f"formats/{name.lower()}")
        unpacking.append(files.replace("BINDING_WEIGHTS", str(first_binding + i)).replace("WEIGHTS", f"w{i}"))
    if formats:
        unpacking.append(_UNPACK[len(formats) - 1])
    told = [_constant(name, value) for name, value in constants.items()]
    return "\n".join([*(f"enable {extension};" for extension in enable), *told, *unpacking, *map(text, parts)])


def _constant(name: str, value: Constant) -> str:
    match value:
        case bool():
            return f"const {name}: bool = {str(value).lower()};"
        case int():
            return f"const {name}: u32 = {value}u;"
        case float():
            return f"const {name}: f32 = {value!r};"
    return f"alias {name} = {value};"
