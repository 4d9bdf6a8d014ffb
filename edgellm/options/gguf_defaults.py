"""The sampling options that a model file recommends in its metadata."""

from collections.abc import Mapping

from edgellm.options.base import shorten
from edgellm.options.definitions import GenerationOptions

FILE_KEYS = {
    "general.sampling.temp": "temp",
    "general.sampling.top_k": "top_k",
    "general.sampling.top_p": "top_p",
    "general.sampling.min_p": "min_p",
    "general.sampling.penalty_repeat": "repeat_penalty",
    "general.sampling.penalty_last_n": "penalty_last_n",
}
"""Metadata keys with which a model file recommends sampling options, and the option that each one sets.

Source: `gguf.Keys.General.SAMPLING_*`. Its keys for samplers that edgellm does not have are left out.
"""


def file_defaults(metadata: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """The defaults in a model file for `GenerationOptions.from_kwargs`, and one line for each value that is ignored.

    A value that is not possible is ignored, so that the file can be used.
    """
    defaults: dict[str, object] = {}
    notices: list[str] = []
    for key, name in FILE_KEYS.items():
        if key not in metadata:
            continue
        value = metadata[key]
        if name == "top_k" and isinstance(value, int) and value == -1:
            value = 0  # a common way to write "off"
        if isinstance(value, float):
            value = float(f"{value:.7g}")  # float32 in the file: 0.2, not 0.20000000298
        try:
            defaults[name] = GenerationOptions.field(name).metadata["check"](value)
        except ValueError as error:
            notices.append(f"{key} is {shorten(value)}, not {error}: ignored; to be sure, set {name} yourself")
    return defaults, notices
