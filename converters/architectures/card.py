"""The general.* keys of a GGUF file: author, origin, license, and defaults for sampling.

`gguf.Metadata` splits names and reads model cards. Its input is untrusted, so values of unexpected types are left out
before.
"""

import warnings
from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from converters.architectures.config import Config
from converters.architectures.experts import WeightCounts
from converters.checkpoint import Checkpoint
from converters.checkpoint.folder import model_name
from edgellm.errors import EdgeLLMWarning, ModelFileError
from edgellm.fmt import printable, shown_path

if TYPE_CHECKING:
    import gguf

N = TypeVar("N", int, float)

_MAX_CHARACTERS = 1 << 18
"""Characters of the longest front matter; PyYAML takes two seconds for it."""

_WORDS = ("license", "tags", "pipeline_tag", "languages", "language")
_SOURCES = ("base_model", "base_models", "base_model_sources", "datasets", "dataset", "dataset_sources")

_INTEGERS = {"top_k": "top_k", "penalty_last_n": "penalty_last_n", "mirostat": "mirostat"}
_NUMBERS = {
    "top_p": "top_p",
    "min_p": "min_p",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "temperature": "temp",
    "repetition_penalty": "penalty_repeat",
    "penalty_repeat": "penalty_repeat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
}
"""Keys of generation_config.json, and their GGUF names after `general.sampling.`."""


def write_general(writer: "gguf.GGUFWriter", checkpoint: Checkpoint, weights: WeightCounts) -> None:
    """Add the keys; `weights` are for the label of the size.

    Sampling defaults of generation_config.json that are no numbers are left out, with an EdgeLLMWarning.
    """
    import gguf

    folder_name = _scalar(model_name(checkpoint.path)) or "model"
    named = {"_name_or_path": _scalar(checkpoint.config.get("_name_or_path"))}
    card = gguf.Metadata.apply_metadata_heuristic(
        gguf.Metadata(), read_card(checkpoint), {k: v for k, v in named.items() if v}, Path(folder_name), weights.all
    )
    for name, value in _sampling(checkpoint).items():
        setattr(card, f"sampling_{name}", value)
    card.name = card.name or folder_name
    card.size_label = card.size_label or gguf.size_label(weights.all, weights.shared, weights.expert, weights.experts)
    writer.add_type(gguf.GGUFType.MODEL)
    card.set_gguf_meta_model(writer)


def _sampling(checkpoint: Checkpoint) -> dict[str, int | float]:
    path, values = checkpoint.path / "generation_config.json", checkpoint.json("generation_config.json")
    given = Config(path, {} if values is None else values)
    whole = {
        name: _number_or_none(partial(given.integer, key, least=-1)) for key, name in _INTEGERS.items() if key in given
    }
    found = whole | {
        name: _number_or_none(partial(given.number, key)) for key, name in _NUMBERS.items() if key in given
    }
    return {name: value for name, value in found.items() if value is not None}


def _number_or_none(read: Callable[[], N]) -> N | None:
    """The number that `read` returns; None with an EdgeLLMWarning if it is no number, as the model can do without."""
    try:
        return read()
    except ModelFileError as error:
        problem = str(error).removesuffix("; correct it")
        warnings.warn(f"{problem}: this default for sampling is left out", EdgeLLMWarning, stacklevel=2)
        return None


def read_card(checkpoint: Checkpoint) -> dict[str, Any]:
    """The front matter of README.md, which is YAML between two lines `---`; empty where there is none.

    Numbers and dates become text. A card that cannot be read is left out with an EdgeLLMWarning.
    """
    try:
        card = _load_yaml(_front_matter(checkpoint.text("README.md") or ""))
        known = {str(key): _clean(str(key), value) for key, value in card.items()} if isinstance(card, dict) else {}
    except Exception as error:  # PyYAML raises nearly any exception, such as for `!!bool x` or `!!int ''`
        where = shown_path(checkpoint.path / "README.md")
        said = printable(" ".join(str(error).split()), 200)
        warnings.warn(f"{where}: the model card is left out, it cannot be read ({said})", EdgeLLMWarning, stacklevel=2)
        return {}
    return {key: value for key, value in known.items() if value is not None}


def _load_yaml(text: str) -> Any:
    """A YAML document of limited size and without aliases, which can make an endless document of a short text."""
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("it has aliases")
            return super().compose_node(parent, index)

    if len(text) > _MAX_CHARACTERS:
        raise ValueError(f"it has more than {_MAX_CHARACTERS} characters")
    return yaml.load(text, Loader)


def _front_matter(text: str) -> str:
    """The lines between a first line `---` and the next line `---`."""
    first, *lines = text.splitlines() or [""]
    if first != "---":
        return ""
    front = "\n".join(lines[: lines.index("---")] if "---" in lines else lines) + "\n"
    # gguf.Metadata does the same: `- no` is Norwegian, not false, and tabs are not allowed in YAML.
    return front.replace("- no\n", '- "no"\n').replace("\t", "  ")


def _clean(key: str, value: object) -> Any:
    """A value of the card, with the type that its key must have; None for another type."""
    if not isinstance(value, list):
        return _scalar(value)
    if key not in _WORDS + _SOURCES:
        return None
    items = (_entry(item) if key in _SOURCES else _scalar(item) for item in value)
    return [item for item in items if item]


def _entry(item: object) -> str | dict[str, str] | None:
    if isinstance(item, Mapping):
        fields = {str(key): _scalar(value) for key, value in item.items()}
        return {key: value for key, value in fields.items() if value}
    return _scalar(item)


def _scalar(value: object) -> str | None:
    """Text, a number or a date as text that UTF-8 can hold."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | date):
        return None
    return str(value).encode(errors="replace").decode()
