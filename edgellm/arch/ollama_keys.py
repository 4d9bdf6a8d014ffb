"""The metadata of Gemma files that Ollama's converter made: it lacks some keys, and has others under its own names.

Ollama (model/models/gemma3 and convert/convert_gemma3.go there) fills in the same values when it runs these files.
"""

from collections.abc import Mapping
from typing import Any

from edgellm.gguf import GGUFFile

_LAYERS_OF_1B, _LAYERS_OF_SCALED = 26, (34, 48, 62)
"""Layers of Gemma 3 1B, and of 4B, 12B and 27B, whose RoPE is scaled on layers without a window."""


def with_llamacpp_keys(file: GGUFFile) -> GGUFFile:
    """The file with the keys that llama.cpp's converter writes; the file itself if it needs none."""
    found = {"gemma3": _gemma3, "gemma3n": _gemma3n}.get(file.architecture)
    return file.with_metadata(found(file)) if found else file


def _gemma3(file: GGUFFile) -> Mapping[str, Any]:
    keys, layers = file.metadata, file.hint("gemma3.block_count", int)
    own_bases = ("gemma3.rope.global.freq_base", "gemma3.rope.local.freq_base")
    if "gemma3.attention.layer_norm_rms_epsilon" in keys and not any(name in keys for name in own_bases):
        return {}
    values = {
        "gemma3.attention.layer_norm_rms_epsilon": 1e-6,
        "gemma3.rope.freq_base": keys.get(own_bases[0], 1e6),
        "gemma3.rope.freq_base_swa": keys.get(own_bases[1], 1e4),
    }
    if layers in _LAYERS_OF_SCALED:
        values |= {"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0}
    values = {key: value for key, value in values.items() if key not in keys}
    # Its files of the 1B model have a soft cap of the logits, which the model has not.
    return values | ({"gemma3.final_logit_softcapping": 0.0} if layers == _LAYERS_OF_1B else {})


def _gemma3n(file: GGUFFile) -> Mapping[str, Any]:
    keys = file.metadata
    names = {
        "gemma3n.attention.key_length": "gemma3n.head_dim",
        "gemma3n.rope.freq_base_swa": "gemma3n.rope.freq_base_local",
    }
    return {name: keys[own] for name, own in names.items() if name not in keys and own in keys}
