"""Which pre-tokenizer a tokenizer.json describes, by the name that GGUF files have for it.

It is recognised from what the file says, never guessed: each name here stands for the steps of the tokenizer.json
that the model of that name was published with.
"""

from typing import NoReturn

from converters.vocabulary.files import Document
from edgellm.errors import UnsupportedModelError
from edgellm.gguf.printable import printable

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_ALL = r"|\s+(?!\S)|\s+"
_REST = r"\s*[\r\n]+" + _ALL
_LLAMA3 = rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_REST}"
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = (rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+", rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*")
_MARKS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_TEKKEN = "|".join((*_CASED, r"\p{N}", _MARKS, _REST))
_GPT4O = "|".join((*(f"{word}{_CONTRACTION}?" for word in _CASED), r"\p{N}{1,3}", _MARKS, _REST))
# Escaped, since some of these letters have look-alikes that editors put in their place.
_EAST_ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"

# (the cuts, whether a word that is a token is taken whole): the name.
_NAMES = {
    ((_GPT2,), False): "gpt-2",
    ((r"\p{N}", _GPT2), False): "smollm",
    ((_LLAMA3,), True): "llama-bpe",
    ((_LLAMA3,), False): "smaug-bpe",
    ((_QWEN2,), False): "qwen2",
    ((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _EAST_ASIAN, r"\p{N}"), False): "deepseek-coder",
    # Checkpoints come either way, and GGUF has one name for both.
    ((_TEKKEN,), True): "tekken",
    ((_TEKKEN,), False): "tekken",
    ((_GPT4O,), True): "gpt-4o",
    ((_GPT4O,), False): "gpt-4o",
}


def pre_tokenizer(tokenizer: Document, model: Document, adds_bos: bool) -> str:
    """The name for `tokenizer.ggml.pre` of a byte-level tokenizer.

    `adds_bos`: its post-processor puts a token in front, which tells DeepSeek's Qwen2 from the others. Raises
    UnsupportedModelError that says what was found when it is none of those known.
    """
    for step in steps(tokenizer, "normalizer", "normalizers"):
        if step.text("type") != "NFC":  # which GGUF has no word for, and its readers leave out
            _refuse(tokenizer, f"its normalizer has {_shown(step)}")
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.text(key):
            _refuse(tokenizer, f"its model has a {key}")
    *before, last = steps(tokenizer, "pre_tokenizer", "pretokenizers")
    if last.text("type") != "ByteLevel":
        _refuse(tokenizer, f"its pre-tokenizer ends with {_shown(last)}")
    cuts = tuple(cut for step in (*before, last) for cut in _cuts(tokenizer, step))
    whole = bool(model.get("ignore_merges", bool))
    name = _NAMES.get((cuts, whole))
    if not name:
        found = " then ".join(f'"{printable(cut, 200)}"' for cut in cuts) or "none at all"
        _refuse(tokenizer, f"its pre-tokenizer cuts with {found}" + (", with ignore_merges" if whole else ""))
    return "deepseek-r1-qwen" if name == "qwen2" and adds_bos else name


def steps(tokenizer: Document, key: str, inner: str) -> list[Document]:
    """The steps of `key`, where one of type Sequence stands for the list `inner` in it."""
    top = tokenizer.part(key)
    found: list[Document] = []
    queue = [top] if top else []
    while queue:
        step = queue.pop(0)
        if step.text("type") == "Sequence":
            queue = [*step.parts(inner), *queue]
        else:
            found.append(step)
    return found


def _cuts(tokenizer: Document, step: Document) -> list[str]:
    """The patterns that a step cuts text with."""
    kind = step.text("type")
    if kind == "ByteLevel" and not step.get("add_prefix_space", bool):
        return [] if step.get("use_regex", bool) is False else [_GPT2]  # true is the default
    if kind == "Digits":
        return [r"\p{N}" if step.get("individual_digits", bool) else r"\p{N}+"]
    pattern = step.part("pattern") if kind == "Split" else None
    regex = pattern.text("Regex") if pattern else None
    way = (step.text("behavior"), bool(step.get("invert", bool))) if regex else None
    # Where a pattern matches all of a text, to remove what is between the matches removes nothing.
    if regex and (way == ("Isolated", False) or (way == ("Removed", True) and regex.endswith(_ALL))):
        return [regex.replace("\r", r"\r").replace("\n", r"\n")]
    return _refuse(tokenizer, f"its pre-tokenizer has {_shown(step)}")


def _shown(step: Document) -> str:
    """A step in a message: its type, then its options."""
    options = (f"{key} {value!r}" for key, value in step.entries.items() if key != "type")
    return printable(" ".join((str(step.text("type")), *options)), 200)


def _refuse(tokenizer: Document, found: str) -> NoReturn:
    raise UnsupportedModelError(
        f"{tokenizer.where}: {found}, which has no name here; models with another pre-tokenizer are not converted yet"
    )
