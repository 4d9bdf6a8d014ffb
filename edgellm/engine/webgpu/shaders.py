"""Shaders: WGSL files, joined with the constants of a model and the formats of its tensors."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from edgellm.arch.blocks import Activation
from kquants import QUANTIZED_FORMATS

FORMATS = ("F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K", "Q4_K", "Q4_0", "Q5_0", "MXFP4")
"""The tensor types that the shaders read."""

_MINIMA, _SIXTEEN_BIT = ("Q5_K", "Q4_K"), ("F16", "BF16")
"""The formats with minima, whose blocks are whole vec4 of words, and those of 16 bits a weight."""

KV_TYPES = ("f16", "f32", "q8_0")
"""The types of KV pages that the shaders read and write."""

ACTIVATIONS = {Activation.SILU: "f_silu", Activation.GELU: "f_gelu", Activation.RELU2: "f_relu2"}
"""The functions of feed-forwards that there are shaders for, and their files."""

_FOLDER = Path(__file__).parent / "shaders"

Constant = bool | int | float | str


@cache
def text(name: str) -> str:
    """The text of a file of the folder `shaders`."""
    return (_FOLDER / f"{name}.wgsl").read_text(encoding="utf-8")


def shader(
    parts: Sequence[str],
    constants: Mapping[str, Constant],
    formats: Sequence[str] = (),
    first_binding: int = 0,
    enable: Sequence[str] = (),
) -> str:
    """The source of a shader: constants, then the code that unpacks its weights, then the files `parts`.

    The tensors of W have these formats, the bindings from `first_binding` on, and the names w0, w1, …
    """
    unpacking = [text("tanh"), text("shape"), text("formats/bits")] if formats else []
    for i, name in enumerate(formats):
        files = [*_unpacking(name), *(_multiplying(name) if "matvec" in parts else [])]
        source = "".join(text(f"formats/{file}") for file in files)
        unpacking.append(source.replace("BINDING_WEIGHTS", str(first_binding + i)).replace("WEIGHTS", f"w{i}"))
    if "matvec" in parts:
        unpacking.append(_products(len(formats)))
    definitions = [_constant(name, value) for name, value in constants.items()]
    return "\n".join([*(f"enable {extension};" for extension in enable), *definitions, *unpacking, *map(text, parts)])


def _unpacking(name: str) -> list[str]:
    """The files that unpack a format; each uses the ones before it."""
    own = name.lower()
    if name not in QUANTIZED_FORMATS:
        return ["weights", own, *(["sixteen_bit"] if name in _SIXTEEN_BIT else []), "floats"]
    return ["weights", *([own, "minima"] if name in _MINIMA else ["bytes", own]), "blocks"]


def _multiplying(name: str) -> list[str]:
    """The files that multiply 32 weights of a format by x, and do so for four rows."""
    return ["block_product" if name in QUANTIZED_FORMATS else "float_product", "rows"]


def _products(tensors: int) -> str:
    """The function `products`, which calls that of one tensor (see `shaders/matvec.wgsl`)."""
    calls = [f"return products_w{i}(row, rows, i, x);" for i in range(tensors)]
    lines = [f"    if (tensor == {i}u) {{ {call} }}" for i, call in enumerate(calls[:-1])]
    parameters = "tensor: u32, row: u32, rows: u32, i: u32, x: X"
    head = f"fn products({parameters}) -> vec4<f32> {{"
    return "\n".join([_constant("TENSORS", tensors), head, *lines, f"    {calls[-1]}", "}"])


def _constant(name: str, value: Constant) -> str:
    match value:
        case bool():
            return f"const {name}: bool = {str(value).lower()};"
        case int():
            return f"const {name}: u32 = {value}u;"
        case float():
            return f"const {name}: f32 = {value!r};"
    return f"alias {name} = {value};"
