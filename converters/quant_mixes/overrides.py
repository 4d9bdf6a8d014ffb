"""`--tensor-type PATTERN=TYPE`: types given by the user for some tensors.

As in llama.cpp, PATTERN is a regular expression searched in the tensor's name, ignoring case; the first option that
matches decides; tensors that are never quantized are not affected. Unlike in llama.cpp, a pattern that decides for no
tensor is an error, and the mixes F16 and BF16 accept overrides, too.
"""

import re
import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn

from edgellm.errors import OptionError
from edgellm.fmt import printable
from kquants import ENCODED_FORMATS


class Override(NamedTuple):
    """The pattern as text and compiled, and the type for tensors that it matches."""

    text: str
    pattern: re.Pattern[str]
    type: str


def parse_override(text: str) -> tuple[str, str]:
    """Split "PATTERN=TYPE" into (pattern, type) for `assign_types`. Raises OptionError if either is invalid."""
    pattern, _, type_name = text.rpartition("=")
    if not pattern or not type_name:
        raise OptionError(f"--tensor-type {printable(text)}: give a pattern and a type, such as ffn_down=Q6_K")
    return pattern, _compiled(pattern, type_name).type


def deciding_overrides(names: Sequence[str], overrides: Iterable[tuple[str, str]]) -> dict[str, Override]:
    """The deciding override for each of `names` that has one.

    Raises OptionError for an unknown type, an invalid pattern, and a pattern that decides for no tensor.
    """
    decided: dict[str, Override] = {}
    for override in (_compiled(*pair) for pair in overrides):
        matches = [name for name in names if override.pattern.search(name)]
        fresh = {name: override for name in matches if name not in decided}
        if not matches:
            _fail(override.text, "matches no tensor that can be quantized; `edgellm info --tensors` lists names")
        if not fresh:
            _fail(override.text, "matches only what an earlier --tensor-type matches; give this one first")
        decided |= fresh
    return decided


def _compiled(pattern: str, type_name: str) -> Override:
    name = type_name.upper()
    if name not in ENCODED_FORMATS:
        _fail(pattern, f'has no type "{printable(type_name)}"; choose one of: {", ".join(ENCODED_FORMATS)}')
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # about syntax that may change its meaning in a later Python
            return Override(pattern, re.compile(pattern, re.IGNORECASE), name)
    except (re.error, OverflowError, RecursionError) as error:
        _fail(pattern, f"is no regular expression: {printable(str(error))}")


def _fail(pattern: str, problem: str) -> NoReturn:
    raise OptionError(f"--tensor-type: {printable(pattern)} {problem}")
