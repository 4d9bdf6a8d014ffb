"""Architectures: what the metadata and tensors of a GGUF file mean.

architectures   the facts of each architecture, one file each
facts           the record that these files fill in; `converters.architectures` reads it, too
tensor_names    names and shapes of the tensors of a layer, in GGUF files and in checkpoints
description     the result: sizes, RoPE and tensors of one model, layer by layer
transformer     from a file and facts to a description
layers          from the tensors of a layer to its description
per_layer       the parts that only Gemma 3n and Gemma 4 have; their tensors are in `per_layer_names`
hyperparameters, rope, attention_settings   what these read of the metadata
tensors         takes tensors by name and checks them
"""

from collections.abc import Callable
from typing import NoReturn

from edgellm.arch.architectures import ARCHITECTURES
from edgellm.arch.description import Description
from edgellm.arch.refuse import refuse
from edgellm.arch.transformer import describe_transformer
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile

__all__ = ["ARCHITECTURES", "describe"]


def describe(file: GGUFFile) -> Description:
    """The description of a file's model, completely checked.

    Raises UnsupportedModelError for an architecture or a tensor type that edgellm does not compute, and
    ModelFileError where metadata and tensors contradict each other.
    """
    facts = ARCHITECTURES.get(file.architecture)
    if facts is None:
        _refuse_architecture(file)
    return describe_transformer(file, facts)


def _refuse_architecture(file: GGUFFile) -> NoReturn:
    name = file.architecture
    parts = [part for part, is_there in _UNSUPPORTED_PARTS.items() if is_there(file, name)]
    having = f" with {' and '.join(parts)}" if parts else ""
    refuse(
        file,
        f"architecture {printable(name)}{having} is not supported; edgellm runs {len(ARCHITECTURES)} architectures of "
        "dense transformers, such as llama, qwen3 and phi3; others may run with --engine llama.cpp",
    )


_UNSUPPORTED_PARTS: dict[str, Callable[[GGUFFile, str], bool]] = {
    "a mixture of experts": lambda file, name: bool(file.hint(f"{name}.expert_count", int)),
    "recurrent layers": lambda file, name: any(key.startswith(_recurrent_keys(name)) for key in file.metadata),
    "bidirectional attention": lambda file, name: file.hint(f"{name}.attention.causal", bool) is False,
}


def _recurrent_keys(name: str) -> tuple[str, ...]:
    return f"{name}.ssm.", f"{name}.shortconv.", f"{name}.wkv."
