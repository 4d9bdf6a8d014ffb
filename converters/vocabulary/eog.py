"""The end-of-generation tokens: all ids that generation_config.json and config.json name.

GGUF has one key for EOS, and llama.cpp reads two more, EOT (end of turn) and EOM (end of message): these get the
first ids beyond EOS. The key for all of them, `tokenizer.ggml.eos_token_ids`, is read by edgellm and by ollama.
"""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, cast

from converters.tensors import MetadataValue
from converters.vocabulary.files import CheckpointFiles, display_path
from edgellm.errors import EdgeLLMWarning
from edgellm.fmt import printable
from edgellm.text.vocabulary import END_TEXTS, ENDS_KEY

_KEY = "eos_token_id"
_ROLES = ("eos", "eot", "eom")


def eog_token_ids(
    checkpoint: CheckpointFiles, made: Mapping[str, MetadataValue], size: int
) -> dict[str, MetadataValue]:
    """The keys to add to `made`, which has at most one EOS, for the other ids; {} if there are none.

    An id beyond the vocabulary is left out with an EdgeLLMWarning.
    """
    named = [i for where, value in _named(checkpoint, size) for i in _ids(where, value, size)]
    taken = {role: made[key].value for role in _ROLES if (key := f"tokenizer.ggml.{role}_token_id") in made}
    every = list(dict.fromkeys([*(cast(int, i) for i in taken.values()), *named]))
    added = {
        f"tokenizer.ggml.{role}_token_id": MetadataValue("u32", i) for role, i in _roles(every, taken, made, checkpoint)
    }
    return added | ({ENDS_KEY: MetadataValue("i32", every)} if len(every) > 1 else {})


def _roles(
    every: list[int], taken: Mapping[str, object], made: Mapping[str, MetadataValue], checkpoint: CheckpointFiles
) -> Iterator[tuple[str, int]]:
    """Roles for ids that llama.cpp does not recognise by their text; the first id becomes EOS if there is none."""
    texts = cast(list[str], made["tokenizer.ggml.tokens"].value)
    eos = every[:1] if "eos" not in taken else []
    unknown = [i for i in every if i not in (*taken.values(), *eos) and texts[i].encode() not in END_TEXTS]
    free = [role for role in _ROLES[1:] if role not in taken]
    yield from zip(("eos",), eos, strict=False)
    yield from zip(free, unknown, strict=False)
    if rest := ", ".join(map(str, unknown[len(free) :])):
        text = f"{display_path(checkpoint)}: replies end at {len(every)} tokens; llama.cpp will not end at {rest}"
        warnings.warn(text, EdgeLLMWarning, stacklevel=2)


def _named(checkpoint: CheckpointFiles, size: int) -> Iterator[tuple[str, Any]]:
    """The ids in the two files with the file names, without an id in config.json that a role warns about already."""
    generation = checkpoint.json("generation_config.json")
    if isinstance(generation, dict):
        yield display_path(checkpoint, "generation_config.json"), generation.get(_KEY)
    inner = checkpoint.config.get("text_config")
    of_text = inner.get(_KEY) if isinstance(inner, Mapping) else None
    of_config = of_text if checkpoint.config.get(_KEY) is None else checkpoint.config[_KEY]
    if type(of_config) is not int or of_config < size:
        yield display_path(checkpoint, "config.json"), of_config


def _ids(where: str, value: Any, size: int) -> Iterator[int]:
    """The valid ids in the value of a file; others cause an EdgeLLMWarning."""
    for i in value if isinstance(value, list) else [value]:
        if i is None or (type(i) is int and i == -1):  # -1 is an older way to say that there is none
            continue
        if type(i) is int and 0 <= i < size:
            yield i
        else:
            text = f"{where}: {_KEY} has {printable(repr(i))}, which is no token of {size}; it is left out"
            warnings.warn(text, EdgeLLMWarning, stacklevel=2)
