"""From the MODEL that a user types to a file: a path, or the name of a model on this machine."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

from edgellm import builtin
from edgellm.errors import ModelFileError
from edgellm.fmt import printable
from edgellm.gguf.auxiliary import auxiliary_kind_at
from edgellm.models.split_names import first_part, split_name
from edgellm.models.stores import StoredModel, stored_models

_SHOWN = 8
_REPOSITORY = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}(:[\w.-]{1,96})?", re.ASCII)


def unique_names(models: Sequence[StoredModel]) -> list[str]:
    """For each model, the first of its names that no other model has; its path if there is none."""
    owners: dict[str, int] = {}
    for model in models:
        for name in {name.casefold() for name in model.names}:
            owners[name] = owners.get(name, 0) + 1
    return [next((n for n in m.names if owners[n.casefold()] == 1), str(m.path)) for m in models]


def named_models() -> list[tuple[str, StoredModel]]:
    """The models on this machine with their names, without auxiliary files, such as those of draft heads."""
    found = stored_models()
    named = zip(unique_names(found), found, strict=True)  # a name of an auxiliary file is taken, too
    return [(name, model) for name, model in named if not auxiliary_kind_at(model.path)]


def canonical_name(path: Path) -> str:
    """A MODEL that means the same file from any working folder, even if other models have the same name.

    It is `builtin`, or the absolute path of the file, of the first part if it is split. Links to folders are resolved.
    Links to files are not: in the cache of Hugging Face the link has the name, and the file is named by its hash.
    """
    first = first_part(path)
    if first == builtin.PATH:
        return builtin.NAME
    try:
        return str(first.parent.resolve() / first.name)
    except (OSError, RuntimeError):  # a cycle of links
        return str(first.absolute())


def display_name(path: Path) -> str:
    """The shortest MODEL for a file: its name if it is a model of this machine, or else the path."""
    models, identity = stored_models(), canonical_name(path)
    named = zip(unique_names(models), models, strict=True)
    return next((name for name, model in named if canonical_name(model.path) == identity), str(path))


def resolve(model: str) -> Path:
    """The file that MODEL means: the built-in model, an existing path, or a model by its name.

    `builtin` is always the built-in model; a file of that name is `./builtin`. A name may be shortened and written in
    upper or lower case if it means one model only. Text that looks like a path is returned as one, even if there is no
    such file. A folder is no model, so the name of a model has priority over a folder of the same name. Raises
    ModelFileError for a name of several models, or of none.
    """
    if not model:
        raise ModelFileError("the name of the model is empty; give a path, or a name that `edgellm list` shows")
    if model == builtin.NAME:
        return builtin.PATH
    if _looks_like_a_path(model):
        return Path(model)
    is_folder = os.path.isdir(model)  # noqa: PTH112 (never raises)
    if os.path.lexists(model) and not is_folder:
        return Path(model)
    return _named(model) or (Path(model) if is_folder else _refuse(model))


def _named(model: str) -> Path | None:
    """The model of a name, None without. Raises ModelFileError if the name may mean several."""
    models = stored_models()
    names = dict(zip(unique_names(models), models, strict=True))
    for rule in _rules(model):
        matches = {name: m.path for name, m in names.items() if any(map(rule, [name, *m.names]))}
        if len(matches) == 1:
            return next(iter(matches.values()))
        if matches:
            raise ModelFileError(f"{_shown([model])} may be any of {_shown(matches)}: give more of the name")
    return None


def _refuse(model: str) -> NoReturn:
    names = unique_names(stored_models())
    raise ModelFileError(f"there is no file and no model named {_shown([model])}; {_advice(model, names)}")


def _rules(typed: str) -> Iterator[Callable[[str], bool]]:
    """The rules by which a name matches the typed text, the strictest first."""
    folded = typed.casefold()
    yield lambda name: name == typed
    yield lambda name: name.casefold() == folded
    stem = split_name(folded)[0]  # the name of a part means the whole model
    yield lambda name: name.casefold() == stem
    yield lambda name: name.casefold().startswith(folded)


def _looks_like_a_path(model: str) -> bool:
    drive = os.path.splitdrive(model)[0]
    return bool(drive) or model.startswith(("/", ".", "~", "\\")) or model.lower().endswith(".gguf")


def _advice(model: str, names: list[str]) -> str:
    if _REPOSITORY.fullmatch(model):
        return f"`edgellm pull {model}` gets it if it is on Hugging Face"
    near = list(dict.fromkeys(_nearest(model.casefold(), names)))[:3]
    nearest = f"the nearest {'are' if len(near) > 1 else 'is'} {_shown(near)}; " if near else ""
    return f"{nearest}`edgellm list` shows all, `edgellm pull` gets more"


def _nearest(typed: str, names: list[str]) -> Iterator[str]:
    yield from (name for name in names if typed in name.casefold())
    folded = {name.casefold(): name for name in names}
    yield from (folded[name] for name in get_close_matches(typed, folded, n=3, cutoff=0.6))


def _shown(names: Iterable[str]) -> str:
    shown = [printable(name) for name in names]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more
