"""The type of each tensor of one model, by a quantization mix.

The rules are llama.cpp's: for matrices those of `llama-quantize` (`llama-quant.cpp`, llama_tensor_get_type), for
vectors and norms those of its converter (`conversion/base.py`, prepare_tensors), so that one pass gives the result of
its two. Differences: an override of some layers does not change others (in llama.cpp it shifts the layer count);
vectors and norms always become F32 (llama.cpp keeps F16 ones of a GGUF file); the exceptions for Falcon are left out;
MXFP4 is for experts alone (llama.cpp also gives it to the stacked matrices of MLA), or in a model without experts for
all matrices of layers (which llama.cpp makes Q8_0).
"""

from collections.abc import Iterable, Sequence

from converters.quant_mixes.mixes import QUANT_MIXES, QuantMix
from converters.quant_mixes.overrides import Override, deciding_overrides
from converters.quant_mixes.structure import ModelStructure
from converters.quant_mixes.unquantized import is_quantized, unquantized_type
from converters.tensors import PlannedTensor, Source, exact_source
from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.gguf.filetypes import FILE_TYPES
from kquants import ENCODED_FORMATS, FLOAT_FORMATS
from kquants.ggml import NAMED_TYPES

KEPT = ("MXFP4", "NVFP4")
"""Types that matrices keep unless an override names another: models with them were trained so, or made with care. In
published GGUF files of gpt-oss, too, the mix's name is about the other tensors."""

_FILE_TYPES = {name.removesuffix("_MOE"): number for number, name in FILE_TYPES.items()}

_SMALLER_BLOCKS = {"Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
_SMALLER_BLOCKS |= dict.fromkeys(("IQ4_XS", "IQ3_S", "IQ3_XXS", "IQ2_XS", "NVFP4"), "IQ4_NL")
_SMALLER_BLOCKS |= {"TQ2_0": "Q4_0", "TQ1_0": "Q4_0"}


def mix_name(typed: str) -> str:
    """The key in QUANT_MIXES for a name in any case; MXFP4_MOE is llama.cpp's for MXFP4. OptionError for others."""
    name = typed.upper().removesuffix("_MOE")
    if name == "DYNAMIC":
        advice = "convert to BF16, and give that file to `edgellm quantize --type dynamic`"
        raise OptionError(f"--type dynamic measures the tensors of a GGUF file: {advice}")
    if name not in QUANT_MIXES and name in ENCODED_FORMATS:
        raise OptionError(f"--type: {name} is for single tensors alone: give it with --tensor-type PATTERN={name}")
    if name not in QUANT_MIXES:
        known = f"{', '.join(QUANT_MIXES)}, and of quantize also dynamic"
        raise OptionError(f'--type: there is no "{printable(typed)}"; choose one of: {known}')
    return name


def assign_types(
    sources: Sequence[Source],
    mix: str,
    architecture: str,
    overrides: Sequence[tuple[str, str]] = (),
    has_imatrix: bool = False,
) -> list[PlannedTensor]:
    """Assign a type to each tensor of `sources`, which must be all tensors of the model; the order is kept.

    `mix` is a name in QUANT_MIXES; `overrides` are (pattern, type) pairs, see `converters.quant_mixes.overrides`;
    `has_imatrix` is True if errors will be weighted by an importance matrix, for which some mixes have other types. The
    note of a tensor gives the reason if it does not get the mix's type. Raises OptionError for an invalid mix or
    override.
    """
    mix = mix_name(mix)
    model = ModelStructure.of(sources, architecture)
    decided = deciding_overrides([s.name for s in sources if is_quantized(s)], overrides)
    chosen = QUANT_MIXES[mix]
    types = {source.name: model.type_by_mix(source.name, chosen, has_imatrix) for source in sources}
    return [_planned(source, chosen, types[source.name], decided.get(source.name)) for source in sources]


def file_type(mix: str, tensors: Iterable[PlannedTensor]) -> int:
    """The value of `general.file_type`: that of the mix, or of the first of `KEPT` that a mix of floats keeps."""
    kept = {tensor.type.name for tensor in tensors} & {*KEPT} if QUANT_MIXES[mix].type in FLOAT_FORMATS else set()
    return _FILE_TYPES[min(kept)] if kept else QUANT_MIXES[mix].file_type


def _planned(source: Source, mix: QuantMix, by_mix: str, override: Override | None) -> PlannedTensor:
    if not is_quantized(source):
        return PlannedTensor(source, NAMED_TYPES[unquantized_type(source, mix)])
    if source.type in KEPT and not override:
        return PlannedTensor(source, NAMED_TYPES[source.type], f"{source.type} in the source, which stays")
    asked = override.type if override else by_mix
    fitted = _fitting(asked, source.columns)
    notes = []
    if override:
        notes.append(f"{asked} by --tensor-type {printable(override.text)}")
    if fitted != asked:
        notes.append(f"rows of {source.columns} are no multiple of {NAMED_TYPES[asked].block}: {fitted} for {asked}")
    return PlannedTensor(exact_source(source, fitted), NAMED_TYPES[fitted], "; ".join(notes))


def _fitting(wanted: str, columns: int) -> str:
    """`wanted`, or llama.cpp's fallback if the row length is no multiple of its block."""
    for name in (wanted, _SMALLER_BLOCKS.get(wanted, wanted)):
        if columns % NAMED_TYPES[name].block == 0:
            return name
    return "F16"
