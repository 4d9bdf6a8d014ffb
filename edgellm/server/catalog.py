"""The models that a server may open, by the names that clients use."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgellm.errors import ModelFileError
from edgellm.fmt import printable, shown_path
from edgellm.gguf.auxiliary import auxiliary_kind_at, check_model_at
from edgellm.gguf.part import folder_error
from edgellm.models import display_name, resolve
from edgellm.models.names import named_models, unique_names
from edgellm.models.stores import stored_models
from edgellm.server.failures import RequestError

_SHOWN = 8
_OLLAMA_TAG = ":latest"
"""Clients of ollama add it to names without a tag."""


@dataclass(frozen=True)
class ServedModel:
    """A model that is served: its name, and the path of its file."""

    name: str
    path: Path


class Catalog:
    """The models that the user named, or all of this machine. No client can name another file, by a path or otherwise.

    Names may be written in upper or lower case, and with ":latest" behind them.
    """

    def __init__(self, given: Sequence[str]) -> None:
        """Raises ModelFileError for a name of no file, UnsupportedModelError for an auxiliary file, such as a head."""
        self._given: dict[str, ServedModel] = {}
        self._asked_for = set[ServedModel]()
        for name in given:
            path = resolve(name)
            if not path.is_file():
                if path.is_dir():
                    raise folder_error(path)
                shown = shown_path(path)
                raise ModelFileError(f"{shown} does not exist; `edgellm list` shows the models")
            check_model_at(path)
            model = ServedModel(served_name(name, path), path)
            self._given |= dict.fromkeys((name.casefold(), model.name.casefold()), model)

    def models(self) -> list[ServedModel]:
        """All models, each once."""
        if self._given:
            return list(dict.fromkeys(self._given.values()))
        return [ServedModel(name, model.path) for name, model in named_models()]

    def find(self, name: str | None) -> ServedModel:
        """The model of a name; without one, the first that the user named. Raises RequestError, also for heads."""
        found = self._find(name)
        if not self._given and (kind := auxiliary_kind_at(found.path)):
            raise RequestError(400, f"{printable(found.name)}: {kind.refusal}", "model", "unsupported_model")
        self._asked_for.add(found)
        return found

    def hide_path(self, path: Path) -> None:
        """Have messages for clients name a file that no client asks for, such as a draft model, without its path."""
        self._asked_for.add(ServedModel(served_name(path.stem, path), path))

    def without_paths(self, message: str) -> str:
        """A message for clients: it has the names of models that were asked for in place of the paths of their files.

        Of other files in the folders of these, such as further parts of a model, it has the names alone.
        """
        names = {path: model.name for model in list(self._asked_for) for path in _paths(model.path)}
        for path in sorted(names, key=lambda path: len(str(path)), reverse=True):
            for shown in _shown(path):
                message = message.replace(shown, printable(names[path]))
        for folder in _longest_first({path.parent for path in names if path.is_absolute()}):
            message = message.replace(f"{folder}{os.sep}", "")
        return message

    def _find(self, name: str | None) -> ServedModel:
        if not name:
            if not self._given:
                raise RequestError(400, "model is missing", "model", "missing_required_parameter")
            return next(iter(self._given.values()))
        known = self._given or self._stored()
        for each in (name.casefold(), name.casefold().removesuffix(_OLLAMA_TAG)):
            if each in known:
                return known[each]
        names = ", ".join(printable(model.name) for model in self.models()[:_SHOWN])
        message = f"there is no model {printable(name)!r} here; there are: {names}"
        raise RequestError(404, message, "model", "model_not_found")

    def _stored(self) -> dict[str, ServedModel]:
        """The models of this machine, by all names that mean one of them only."""
        found = stored_models()
        served = [ServedModel(name, each.path) for name, each in zip(unique_names(found), found, strict=True)]
        names = [{name.casefold() for name in each.names} for each in found]
        by_name = {model.name.casefold(): model for model in served}
        for model, own in zip(served, names, strict=True):
            by_name |= {name: model for name in own if sum(name in other for other in names) == 1}
        return by_name


def _paths(path: Path) -> set[Path]:
    """The paths of a file that messages may have."""
    return {path.absolute(), path.resolve(), path}


def _shown(path: Path) -> set[str]:
    """A path as messages have it."""
    return {str(path), shown_path(path)}


def _longest_first(paths: Iterable[Path]) -> list[str]:
    """Paths as messages have them, so that none is replaced within a longer one."""
    return sorted({shown for path in paths for shown in _shown(path)}, key=len, reverse=True)


def served_name(given: str, path: Path) -> str:
    """The name to show: that of the machine's list, or of the file."""
    shown = display_name(path)
    return path.stem if shown == str(path) else shown
