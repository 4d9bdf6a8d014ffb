"""The quantization in the name of a GGUF file, as publishers write it: `qwen3-8b-q4_k_m`, `UD-Q4_K_XL/part`."""

import re

_QUANT = re.compile(
    r"(?<![A-Z0-9])((?:UD-)?(?:I?Q[1-8](?:_[A-Z0-9]+)+|TQ[12]_0|MXFP4(?:_MOE)?|NVFP4|BF16|FP?16|FP?32))(?![A-Z0-9])",
    re.IGNORECASE,
)


def quant_in_name(name: str) -> str:
    """The last quantization in a name without extension, in capitals; empty if there is none."""
    found = _QUANT.findall(name)
    return found[-1].upper() if found else ""
