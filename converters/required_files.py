"""Which files of a remote checkpoint a conversion reads, decided before they are downloaded."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from converters.architectures import text_model
from converters.architectures.config import Config
from converters.checkpoint.files import is_plain, parse_json
from converters.checkpoint.folder import INDEX, weights_or_index
from converters.checkpoint.quantized import finders_of, settings_of
from converters.checkpoint.quantized.settings import SETTINGS_FILES
from converters.head_target import kind_with_target
from edgellm.errors import ModelFileError

SMALL_FILES = SETTINGS_FILES | frozenset(
    {
        "README.md",
        "added_tokens.json",
        "chat_template.jinja",
        "chat_template.json",
        "config.json",
        "generation_config.json",
        "special_tokens_map.json",
        "tekken.json",
        "tiktoken.model",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
    }
)
"""The files that are read besides the weights, if they exist."""

_TEMPLATES = "additional_chat_templates"
_TOKENIZERS = frozenset({"tokenizer.json", "tokenizer.model", "tekken.json", "tiktoken.model"})
_CONFIG = "config.json"


def required_files(names: Iterable[str], read: Callable[[str], bytes], has_target: bool = False) -> list[str]:
    """Select the files that a conversion reads from the paths `names`; the weights come last, [] if there are none.

    `read` returns the content of a small file: the index lists the shards. With `has_target`, it is a draft head that
    is to be converted. Raises ModelFileError if it is unclear which files hold the weights, OptionError for a model
    where a head is expected and the reverse, and ModelFileError or UnsupportedModelError for a checkpoint that
    `convert` refuses.
    """
    all_names = set(names)
    weights = weights_or_index(name for name in all_names if "/" not in name)
    if len(weights) > 1:
        raise ModelFileError(f"{len(weights)} .safetensors files have no {INDEX}; choose another repository")
    if weights:
        _check(all_names, read, has_target)
    if weights == [INDEX]:
        weights += _shards(read(INDEX))
    return [*sorted(filter(_is_small, all_names)), *weights] if weights else []


def _check(names: set[str], read: Callable[[str], bytes], has_target: bool) -> None:
    """Check what needs no weights: the tokenizer, the architecture, the types. A draft head has no tokenizer."""
    path = Path(_CONFIG)
    values = parse_json(path, read(_CONFIG)) if _CONFIG in names else {}
    config = Config(path, values)
    if kind := kind_with_target(config, "this checkpoint", has_target):
        kind.check(config)
    elif not _TOKENIZERS & names:
        raise ModelFileError("there is no tokenizer.json, tokenizer.model or tekken.json; choose another repository")
    elif _CONFIG in names:
        text_model(config)
    if _CONFIG in names:
        finders_of(settings_of(path, values))


def _is_small(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return name in SMALL_FILES or (folder == _TEMPLATES and file.endswith(".jinja"))


def _shards(index: bytes) -> list[str]:
    try:
        files = set(json.loads(index)["weight_map"].values())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        files = set()
    if not files or not all(isinstance(file, str) and is_plain(file) for file in files):
        raise ModelFileError(f"{INDEX} does not say which file has which weight; choose another repository")
    return sorted(files)
