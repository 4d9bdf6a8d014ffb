"""Architectures: what the metadata and tensors of a GGUF file mean.

architectures         the facts of each architecture, one file each
facts                 the record that these files fill in; `converters.architectures` reads it, too
tensor_names          names and shapes of the tensors of a layer, in GGUF files and in checkpoints
recurrent_names       names and shapes of the tensors of recurrent mixers
description           the result: sizes and tensors of one model, layer by layer
blocks, positions     its parts: attention and feed-forwards, RoPE
mixture               its mixtures of experts, with their routers
recurrent, kimi_delta its recurrent mixers; recurrent_parts has what several of them have
eagle3                from a file and the description of its target to an EAGLE-3 head
gemma4_assistant      the same for an assistant of Gemma 4; `head_files` has both, by architecture
transformer, layers   from a file and facts to a description
head                  heads that draft for a model: they read its hidden states beside tokens
prediction            the head for multi-token prediction that a model's file may have
hyperparameters       the sizes, read from the metadata
layer_sizes           those of a layer, by the names that shapes of tensors have for them
rope                  the RoPE, read from the metadata
recurrent_settings    sizes of recurrent mixers, read from the metadata
recurrent_reader      from the tensors of a layer to its recurrent mixer
attention_settings    windows and other settings of attention, read from the metadata
per_layer             embeddings of each layer, and the streams of Gemma 3n
ollama_keys           the keys that Ollama's converter leaves out or names otherwise
corrected_keys        those that llama.cpp's converter writes with another value than the model's
tensors               takes tensors by name and checks them
refuse, unsupported   errors for sound files that ask for something edgellm does not compute
"""

from contextlib import suppress

from edgellm.arch.architectures import ARCHITECTURES
from edgellm.arch.corrected_keys import with_corrected_keys
from edgellm.arch.description import Description
from edgellm.arch.head import Head, HeadSource
from edgellm.arch.ollama_keys import with_llamacpp_keys
from edgellm.arch.prediction import read_prediction_head
from edgellm.arch.transformer import describe_transformer, read_hyperparameters
from edgellm.arch.unsupported import check_holds_model, refuse_architecture
from edgellm.errors import EdgeLLMError
from edgellm.gguf import GGUFFile

__all__ = ["ARCHITECTURES", "describe", "describe_head", "head_kind"]


def describe(file: GGUFFile) -> Description:
    """The description of a file's model, completely checked.

    Raises UnsupportedModelError for a file of no model, and an architecture or a tensor type that edgellm does not
    compute, and ModelFileError where metadata and tensors contradict each other.
    """
    check_holds_model(file)
    facts = ARCHITECTURES.get(file.architecture)
    if facts is None:
        refuse_architecture(file, len(ARCHITECTURES))
    return describe_transformer(with_corrected_keys(with_llamacpp_keys(file)), facts)


def describe_head(file: GGUFFile, model: Description) -> Head | None:
    """The head that drafts for a model, which `describe` gives, in the same file; None if the file has none.

    Raises UnsupportedModelError and ModelFileError for one that cannot be computed; the model can, all the same.
    """
    facts = ARCHITECTURES[file.architecture]
    return read_prediction_head(
        read_hyperparameters(with_corrected_keys(with_llamacpp_keys(file)), facts), facts, model
    )


def head_kind(file: GGUFFile, model: Description) -> HeadSource | None:
    """The kind of the head that `describe_head` gives; None also for one that cannot be computed."""
    with suppress(EdgeLLMError):
        head = describe_head(file, model)
        return head.source if head else None
    return None
