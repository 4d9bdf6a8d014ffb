"""Which of a repository's GGUF files is meant."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, size
from edgellm.hub.listing import RemoteFile, Repository
from edgellm.models.quant import quant_in_name
from edgellm.models.scan import part_name, split_name

_DEFAULT = "Q4_K_M"
_COMPUTED = re.compile(r"(UD-)?(Q[2-6]_K(_[A-Z]+)?|Q[45]_[01]|Q8_0|IQ4_NL|IQ4_XS|MXFP4(_MOE)?)")
_SIXTEEN = re.compile(r"BF16|FP?16")
_NO_MODEL = re.compile(r"mmproj|imatrix", re.IGNORECASE)
_SHOWN = 12


@dataclass(frozen=True)
class GGUFChoice:
    """A model in a repository: its parts in order, as far as they are there.

    `stem` is its name without part and ending, `count` the number of its parts, 0 of a model in one file.
    """

    stem: str
    files: tuple[RemoteFile, ...]
    count: int = 0

    @property
    def quant(self) -> str:
        """The quantization by its name, or empty."""
        return quant_in_name(self.stem)

    @property
    def is_complete(self) -> bool:
        """Whether the repository has all parts."""
        return len(self.files) == max(1, self.count) and not any(self.missing())

    def missing(self) -> Iterator[str]:
        """The names of the parts that the repository should have and has not."""
        there = {file.name for file in self.files}
        ending = self.files[0].name.rpartition(".")[2]
        names = (part_name(self.stem, number, f"{self.count:05}", f".{ending}") for number in range(1, self.count + 1))
        return (name for name in names if name not in there)

    @property
    def bytes(self) -> int:
        """The bytes of all parts."""
        return sum(file.bytes for file in self.files)


def gguf_choices(repository: Repository) -> list[GGUFChoice]:
    """The models of a repository, the smallest first.

    One that is there split and in one file, as some publishers have it, is taken in one.
    """
    parts: dict[tuple[str, str], list[RemoteFile]] = {}
    for file in sorted(repository.files, key=lambda file: file.name):
        if is_gguf(file.name) and not _NO_MODEL.search(file.name):
            parts.setdefault(split_name(file.name.rpartition(".")[0]), []).append(file)
    found: dict[str, GGUFChoice] = {}
    for (stem, count), files in sorted(parts.items()):
        model = GGUFChoice(stem, tuple(files), int(count or 0))
        if stem not in found or not found[stem].is_complete:
            found[stem] = model
    return sorted(found.values(), key=lambda candidate: candidate.bytes)


def is_gguf(name: str) -> bool:
    """Whether a file is one by its name."""
    return name.lower().endswith(".gguf")


def select_gguf(repository: str, found: Sequence[GGUFChoice], wanted: str, fits: Callable[[int], bool]) -> GGUFChoice:
    """The candidate that `wanted` names, a quantization or a part of a file's name in either case.

    Without it Q4_K_M, or else the largest whose bytes `fits` accepts, at most 8 bits a weight where there is such.
    Raises EdgeLLMError, with what there is, where none or several are meant, or parts of the one are missing.
    """
    whole = [model for model in found if model.is_complete]
    meant = _named(found, wanted) if wanted else _default(whole, fits) or list(found[:1])
    meant = [model for model in meant if model.is_complete] or meant
    if len(meant) == 1:
        return _complete(repository, meant[0], whole)
    if not meant:
        raise EdgeLLMError(f"{repository} has no model {printable(wanted)}; {_others(whole)}")
    asked = f"{repository}:{printable(wanted)}" if wanted else repository
    raise EdgeLLMError(f"{asked} may be any of {_shown(meant)}; add `:` and a quantization or more of the name")


def _complete(repository: str, model: GGUFChoice, whole: Sequence[GGUFChoice]) -> GGUFChoice:
    if model.is_complete:
        return model
    lacks = f"lacks {_listed(map(printable, model.missing()))}, of the {model.count} parts of {printable(model.stem)}"
    raise EdgeLLMError(f"{repository} {lacks}; {_others(whole)}")


def _others(whole: Sequence[GGUFChoice]) -> str:
    return f"it has {_shown(whole)}" if whole else "choose another repository"


def _named(found: Sequence[GGUFChoice], wanted: str) -> list[GGUFChoice]:
    """The strictest reading that something agrees with."""
    folded = wanted.casefold().removesuffix(".gguf")
    word = re.compile(rf"(?<![a-z0-9]){re.escape(folded)}(?![a-z0-9])")
    readings: tuple[Callable[[GGUFChoice], bool], ...] = (
        lambda c: folded in (c.stem.casefold(), c.stem.casefold().rpartition("/")[2]),
        lambda c: c.quant.casefold() == folded,
        lambda c: bool(word.search(c.stem.casefold())),
        lambda c: folded in c.stem.casefold(),
    )
    return next(filter(None, ([c for c in found if is_meant(c)] for is_meant in readings)), [])


def _default(found: Sequence[GGUFChoice], fits: Callable[[int], bool]) -> list[GGUFChoice]:
    if len(found) < 2:
        return list(found)
    if usual := [c for c in found if c.quant == _DEFAULT]:
        return usual
    small = [c for c in found if _COMPUTED.fullmatch(c.quant)]
    known = small or [c for c in found if _SIXTEEN.fullmatch(c.quant)]
    if not known:
        return list(found)
    best = [c for c in known if fits(c.bytes)][-1:] or known[:1]
    return [c for c in known if c.quant == best[0].quant]


def _shown(found: Iterable[GGUFChoice]) -> str:
    return _listed(_labels(list(found)))


def _listed(shown: Iterable[str]) -> str:
    names = list(shown)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _labels(found: Sequence[GGUFChoice]) -> Iterator[str]:
    quants = Counter(c.quant for c in found)
    for c in found:
        name = c.quant if quants[c.quant] == 1 and c.quant else printable(c.stem)
        yield f"{name} ({size(c.bytes)})"
