"""Small files that hold no model of their own: the keys by which they are told, and one tensor."""

from support import gguf_bytes as raw

_KEYS = {
    "imatrix": {"general.type": "imatrix"},
    "adapter": {"general.architecture": "llama", "general.type": "adapter"},
    "mmproj": {"general.architecture": "clip", "general.type": "mmproj"},
    "old mmproj": {"general.architecture": "clip"},
    "control vector": {"general.architecture": "controlvector"},
    "dflash": {"general.architecture": "dflash"},
    "eagle3": {"general.architecture": "eagle3"},
    "assistant": {"general.architecture": "gemma4-assistant"},
}

KINDS = {name: name for name in ("imatrix", "adapter", "mmproj", "control vector")} | {
    "old mmproj": "mmproj",
    "dflash": "other head",
    "eagle3": "head",
    "assistant": "head",
}
"""For each file that `auxiliary_file` makes, its kind."""


def auxiliary_file(name: str, *others: bytes) -> raw.RawGGUF:
    """A file, with `others` as further keys behind those that tell its kind."""
    pairs = tuple(raw.string_pair(key, value) for key, value in _KEYS[name].items())
    return raw.RawGGUF(pairs + others, (raw.f32_tensor("t", (8,), 0, [0.5] * 8),))
