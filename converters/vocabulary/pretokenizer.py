"""Recognising the pre-tokenizer of a tokenizer.json, by its name in GGUF files.

It is recognised by its exact steps, never guessed: each name means the steps in the tokenizer.json that the model of
that name was published with.
"""

import warnings
from collections.abc import Iterable
from typing import NoReturn

from converters.vocabulary.files import JsonObject
from edgellm.errors import EdgeLLMWarning, UnsupportedModelError
from edgellm.fmt import printable
from edgellm.text.pretokenizers import PRE_TOKENIZERS
from edgellm.text.word_patterns import FALCON, GPT2

_ALL = r"|\s+(?!\S)|\s+"

# Falcon's. The last two steps cut what bytes are spelled with; its merges never join what they cut.
_FALCON = [
    {"type": "Punctuation", "behavior": "Contiguous"},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    {"type": "Digits", "individual_digits": False},
    {"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated", "invert": False},
]

# Checkpoints with these exist with ignore_merges and without, and GGUF has one name for both. Their merges make every
# token, so that the ids are the same.
_EITHER_WAY = ("tekken", "gpt-4o")


def pre_tokenizer(tokenizer: JsonObject, model: JsonObject, adds_bos: bool, preferred: Iterable[str] = ()) -> str:
    """The name for `tokenizer.ggml.pre` of a byte-level tokenizer: one of `preferred`, or else the first of its rules.

    `adds_bos`: its post-processor adds a token in front, which distinguishes DeepSeek's Qwen2 from the others. Raises
    UnsupportedModelError, with the steps found, for an unknown pre-tokenizer.
    """
    patterns, composed = _patterns(tokenizer, model)
    whole = bool(model.get("ignore_merges", bool))
    named = [(name, rules) for name, rules in PRE_TOKENIZERS.items() if rules.byte_level and rules.patterns == patterns]
    # Some expressions have a single name, for checkpoints that compose text (NFC) and for those that do not.
    ways = ((whole, composed), (whole, not composed), (not whole, composed), (not whole, not composed))
    for way in ways:
        names = [name for name, rules in named if (rules.ignore_merges, rules.nfc) == way]
        if names:
            name = next((name for name in preferred if name in names), names[0])
            if way[0] != whole and name not in _EITHER_WAY:
                _warn_of_merges(tokenizer, whole)
            return "deepseek-r1-qwen" if name == "qwen2" and adds_bos else name
    found = " then ".join(f'"{printable(pattern, 200)}"' for pattern in patterns) or "none at all"
    return _refuse(tokenizer, f"its pre-tokenizer splits with {found}")


def _patterns(tokenizer: JsonObject, model: JsonObject) -> tuple[tuple[str, ...], bool]:
    """The patterns by which text is split, and whether it is composed (NFC) before."""
    composed = False
    for step in steps(tokenizer, "normalizer", "normalizers"):
        if step.text("type") != "NFC":
            _refuse(tokenizer, f"its normalizer has {_shown(step)}")
        composed = True
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.text(key):
            _refuse(tokenizer, f"its model has a {key}")
    found = steps(tokenizer, "pre_tokenizer", "pretokenizers")
    if [step.entries for step in found] == _FALCON:
        return FALCON, composed
    if found[-1].text("type") != "ByteLevel":
        _refuse(tokenizer, f"its pre-tokenizer ends with {_shown(found[-1])}")
    return tuple(pattern for step in found for pattern in _split_patterns(tokenizer, step)), composed


def _warn_of_merges(tokenizer: JsonObject, whole: bool) -> None:
    what = (
        "takes a word that is a token as that token" if whole else "follows the merges for words that are tokens, too"
    )
    text = f"{tokenizer.where}: it {what} (ignore_merges); GGUF cannot represent this for its pre-tokenizer"
    warnings.warn(f"{text}, so that token ids may differ at times", EdgeLLMWarning, stacklevel=2)


def steps(tokenizer: JsonObject, key: str, inner: str) -> list[JsonObject]:
    """The steps of `key`; a step of type Sequence is replaced by the steps in its list `inner`."""
    top = tokenizer.child(key)
    found: list[JsonObject] = []
    queue = [top] if top else []
    while queue:
        step = queue.pop(0)
        if step.text("type") == "Sequence":
            queue = [*step.children(inner), *queue]
        else:
            found.append(step)
    return found


def _split_patterns(tokenizer: JsonObject, step: JsonObject) -> list[str]:
    """The patterns by which a step splits text."""
    kind = step.text("type")
    if kind == "ByteLevel" and not step.get("add_prefix_space", bool):
        return [] if step.get("use_regex", bool) is False else [GPT2]  # true is the default
    if kind == "Digits":
        return [r"\p{N}" if step.get("individual_digits", bool) else r"\p{N}+"]
    pattern = step.child("pattern") if kind == "Split" else None
    regex = pattern.text("Regex") if pattern else None
    way = (step.text("behavior"), bool(step.get("invert", bool))) if regex else None
    # Where a pattern matches all of a text, nothing between the matches is left to remove.
    if regex and (way == ("Isolated", False) or (way == ("Removed", True) and regex.endswith(_ALL))):
        return [regex.replace("\r", r"\r").replace("\n", r"\n")]
    return _refuse(tokenizer, f"its pre-tokenizer has {_shown(step)}")


def _shown(step: JsonObject) -> str:
    """A step for a message: its type, then its options."""
    options = (f"{key} {value!r}" for key, value in step.entries.items() if key != "type")
    return printable(" ".join((str(step.text("type")), *options)), 200)


def _refuse(tokenizer: JsonObject, found: str) -> NoReturn:
    raise UnsupportedModelError(
        f"{tokenizer.where}: {found}, which is not known here; models with another pre-tokenizer are not converted yet"
    )
