"""`--tensor-type PATTERN=TYPE`: types that a person chooses for some tensors.

As with llama.cpp's option of that name, PATTERN is a regular expression found anywhere in the tensor's name, in
upper or lower case; where several match, the first one given decides; and what is never quantized stays as it is.
Unlike there, a pattern that decides nothing is an error, and F16 and BF16 recipes have overrides, too.
"""

import re
import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn

from edgellm.errors import OptionError
from edgellm.fmt import printable
from kquants import ENCODED_FORMATS


class Override(NamedTuple):
    """The pattern as a person gave it, compiled, and the type for what it matches."""

    given: str
    pattern: re.Pattern[str]
    type: str


def parse_override(text: str) -> tuple[str, str]:
    """(pattern, type) of "PATTERN=TYPE", as `assign_types` takes them; OptionError if either is impossible."""
    pattern, _, kind = text.rpartition("=")
    if not pattern or not kind:
        raise OptionError(f"--tensor-type {printable(text)}: give a pattern and a type, such as ffn_down=Q6_K")
    return pattern, _compiled(pattern, kind).type


def deciding_overrides(names: Sequence[str], overrides: Iterable[tuple[str, str]]) -> dict[str, Override]:
    """The override that decides for each of `names`, where there is one.

    Raises OptionError for an unknown type, a pattern that is none, and one that decides for no tensor.
    """
    decided: dict[str, Override] = {}
    for override in (_compiled(*pair) for pair in overrides):
        matches = [name for name in names if override.pattern.search(name)]
        fresh = {name: override for name in matches if name not in decided}
        if not matches:
            _fail(override.given, "matches no tensor that can be quantized; `edgellm info --tensors` lists names")
        if not fresh:
            _fail(override.given, "matches only what an earlier --tensor-type matches; give this one first")
        decided |= fresh
    return decided


def _compiled(pattern: str, kind: str) -> Override:
    name = kind.upper()
    if name not in ENCODED_FORMATS:
        _fail(pattern, f'has no type "{printable(kind)}"; choose one of: {", ".join(ENCODED_FORMATS)}')
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of what a later Python may read otherwise
            return Override(pattern, re.compile(pattern, re.IGNORECASE), name)
    except (re.error, OverflowError, RecursionError) as error:
        _fail(pattern, f"is no regular expression: {printable(str(error))}")


def _fail(pattern: str, problem: str) -> NoReturn:
    raise OptionError(f"--tensor-type: {printable(pattern)} {problem}")
