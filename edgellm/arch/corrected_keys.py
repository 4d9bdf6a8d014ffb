"""The metadata of files whose converter writes a value that is not the model's.

llama.cpp's converter gives Phi-3.5-MoE the factor of cosine and sine that Phi-3's formula gives for these contexts. The
published models, which are all of the architecture, have another one in config.json (`short_mscale`, `long_mscale`).
"""

from math import isclose, log, sqrt

from edgellm.gguf import GGUFFile

_CONTEXT, _ORIGINAL = 131072, 4096
_WRITTEN, _PUBLISHED = sqrt(1 + log(_CONTEXT / _ORIGINAL) / log(_ORIGINAL)), 1.243163121016122


def with_corrected_keys(file: GGUFFile) -> GGUFFile:
    """The file with the values of the model; the file itself where it has them."""
    key = "phimoe.rope.scaling.attn_factor"
    sizes = [file.hint(f"phimoe.{name}", int) for name in ("context_length", "rope.scaling.original_context_length")]
    factor = file.hint(key, float)
    is_wrong = sizes == [_CONTEXT, _ORIGINAL] and factor is not None and isclose(factor, _WRITTEN, rel_tol=1e-6)
    return file.with_metadata({key: _PUBLISHED}) if is_wrong else file
