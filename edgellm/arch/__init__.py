"""Architectures: what the metadata and tensors of a GGUF file mean.

architectures   the facts of each architecture, one file each
facts           the record that these files fill in; `converters.architectures` reads it, too
tensor_names    names and shapes of the tensors of a layer, in GGUF files and in checkpoints
description     the result: sizes, RoPE and tensors of one model, layer by layer
transformer     from a file and facts to a description
layers          from the tensors of a layer to its description
hyperparameters, rope, attention_settings   what these read of the metadata
tensors         takes tensors by name and checks them
"""

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
        known = ", ".join(sorted(ARCHITECTURES))
        what = f"architecture {printable(file.architecture)} is not supported; edgellm runs {known}"
        refuse(file, f"{what}; others may run with --engine llama.cpp")
    return describe_transformer(file, facts)
