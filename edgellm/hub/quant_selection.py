"""Selects one of the GGUF models in a repository, by its quantization or its name."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, size
from edgellm.hub.listing import RemoteFile, Repository
from edgellm.models.quant import quant_in_name
from edgellm.models.split_names import part_name, split_name
from kquants.ik_types import NAMED_IK_TYPES, replacement

_DEFAULT = "Q4_K_M"
_SUPPORTED_QUANT = re.compile(
    r"(UD-)?(Q[2-6]_K(_[A-Z]+)?|Q[45]_[01]|T?Q[12]_0|Q8_0|IQ[1-4]_(XXS|XS|S|M|NL)|MXFP4(_MOE)?|NVFP4)"
)
_SIXTEEN_BIT = re.compile(r"BF16|FP?16")
_NOT_A_MODEL = re.compile(r"mmproj|imatrix", re.IGNORECASE)
_SHOWN = 12


@dataclass(frozen=True)
class GGUFChoice:
    """A GGUF model in a repository: its parts in order, without those that the repository lacks.

    `stem` is its name without part number and extension; `count` is the number of parts, 0 for a model in one file.
    """

    stem: str
    files: tuple[RemoteFile, ...]
    count: int = 0

    @property
    def quant(self) -> str:
        """The quantization that the name tells; empty if it tells none."""
        return quant_in_name(self.stem)

    @property
    def is_complete(self) -> bool:
        """Whether the repository has all parts."""
        return len(self.files) == max(1, self.count) and not any(self.missing())

    def missing(self) -> Iterator[str]:
        """The names of the parts that the repository lacks."""
        present = {file.name for file in self.files}
        ending = self.files[0].name.rpartition(".")[2]
        names = (part_name(self.stem, number, f"{self.count:05}", f".{ending}") for number in range(1, self.count + 1))
        return (name for name in names if name not in present)

    @property
    def bytes(self) -> int:
        """The size of all parts in bytes."""
        return sum(file.bytes for file in self.files)


def gguf_choices(repository: Repository) -> list[GGUFChoice]:
    """The GGUF models of a repository, the smallest first.

    Of a model that is there both split and in one file, only the one file is listed.
    """
    parts: dict[tuple[str, str], list[RemoteFile]] = {}
    for file in sorted(repository.files, key=lambda file: file.name):
        if is_gguf(file.name) and not _NOT_A_MODEL.search(file.name):
            parts.setdefault(split_name(file.name.rpartition(".")[0]), []).append(file)
    found: dict[str, GGUFChoice] = {}
    for (stem, count), files in sorted(parts.items()):
        model = GGUFChoice(stem, tuple(files), int(count or 0))
        if stem not in found or not found[stem].is_complete:
            found[stem] = model
    return sorted(found.values(), key=lambda candidate: candidate.bytes)


def is_gguf(name: str) -> bool:
    """Whether the name is that of a GGUF file."""
    return name.lower().endswith(".gguf")


def select_gguf(repository: str, found: Sequence[GGUFChoice], selector: str, fits: Callable[[int], bool]) -> GGUFChoice:
    """The model that `selector` names: a quantization or a part of a file's name, in upper or lower case.

    An empty selector means Q4_K_M, or else the largest model whose bytes `fits` accepts, of at most 8 bits per weight
    if the repository has one. Raises EdgeLLMError, which lists the models, if the selector matches none or several, if
    parts of the model are missing, or if its name tells a type that only ik_llama.cpp computes.
    """
    complete = [model for model in found if model.is_complete]
    matches = _matches(found, selector) if selector else _default(complete, fits) or list(found[:1])
    matches = [model for model in matches if model.is_complete] or matches
    if len(matches) == 1:
        return _check_type(repository, _check_complete(repository, matches[0], complete), complete)
    if not matches:
        raise EdgeLLMError(f"{repository} has no model {printable(selector)}; {_others(complete)}")
    asked = f"{repository}:{printable(selector)}" if selector else repository
    raise EdgeLLMError(f"{asked} may be any of {_described(matches)}; add `:` and a quantization or more of the name")


def _check_complete(repository: str, model: GGUFChoice, complete: Sequence[GGUFChoice]) -> GGUFChoice:
    if model.is_complete:
        return model
    lacks = f"lacks {_joined(map(printable, model.missing()))}, of the {model.count} parts of {printable(model.stem)}"
    raise EdgeLLMError(f"{repository} {lacks}; {_others(complete)}")


def _check_type(repository: str, model: GGUFChoice, complete: Sequence[GGUFChoice]) -> GGUFChoice:
    if model.quant not in NAMED_IK_TYPES:
        return model
    advice = f"take a file of the same model in {replacement(NAMED_IK_TYPES[model.quant])}"
    others = _others([other for other in complete if other.quant not in NAMED_IK_TYPES])
    which = f"{repository}:{model.quant} has weights that only ik_llama.cpp computes"
    raise EdgeLLMError(f"{which}; {advice}: {others}")


def _others(complete: Sequence[GGUFChoice]) -> str:
    return f"it has {_described(complete)}" if complete else "choose another repository"


def _matches(found: Sequence[GGUFChoice], selector: str) -> list[GGUFChoice]:
    """The models that match by the strictest rule that any model matches by."""
    folded = selector.casefold().removesuffix(".gguf")
    word = re.compile(rf"(?<![a-z0-9]){re.escape(folded)}(?![a-z0-9])")
    rules: tuple[Callable[[GGUFChoice], bool], ...] = (
        lambda c: folded in (c.stem.casefold(), c.stem.casefold().rpartition("/")[2]),
        lambda c: c.quant.casefold() == folded,
        lambda c: bool(word.search(c.stem.casefold())),
        lambda c: folded in c.stem.casefold(),
    )
    return next(filter(None, ([c for c in found if rule(c)] for rule in rules)), [])


def _default(found: Sequence[GGUFChoice], fits: Callable[[int], bool]) -> list[GGUFChoice]:
    if len(found) < 2:
        return list(found)
    if usual := [c for c in found if c.quant == _DEFAULT]:
        return usual
    small = [c for c in found if _SUPPORTED_QUANT.fullmatch(c.quant)]
    known = small or [c for c in found if _SIXTEEN_BIT.fullmatch(c.quant)]
    if not known:
        return list(found)
    best = [c for c in known if fits(c.bytes)][-1:] or known[:1]
    return [c for c in known if c.quant == best[0].quant]


def _described(found: Iterable[GGUFChoice]) -> str:
    return _joined(_labels(list(found)))


def _joined(shown: Iterable[str]) -> str:
    names = list(shown)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _labels(found: Sequence[GGUFChoice]) -> Iterator[str]:
    quants = Counter(c.quant for c in found)
    for c in found:
        name = c.quant if quants[c.quant] == 1 and c.quant else printable(c.stem)
        yield f"{name} ({size(c.bytes)})"
