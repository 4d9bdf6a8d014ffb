"""What the conversion to an architecture takes beyond its facts."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from converters.architectures.config import Config
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.rope import PLAIN, SCALED
from converters.architectures.rope_factors import llama3_factors
from converters.architectures.sizes import SizesReader, read_sizes
from converters.architectures.sources import computed
from converters.architectures.windows import write_window
from converters.tensors import Source


def accept(config: Config) -> None:
    """Refuse no variant."""


def no_keys(model: TextModel) -> Collection[str]:
    """Omit no key."""
    return ()


def no_stems(model: TextModel, layer: int) -> Collection[str]:
    """Let no layer lack tensors of others."""
    return ()


def own_architecture(model: TextModel) -> str:
    """The architecture whose facts the checkpoint is read by."""
    return model.facts.name


def llama3_rope(model: TextModel, sources: list[Source]) -> list[Source]:
    """The tensors, after the factors of Llama 3's RoPE where the model has it."""
    if model.rope.kind != "llama3":
        return sources
    return [computed("rope_freqs.weight", llama3_factors(model.rope.full, model.sizes.head_dim[0])), *sources]


@dataclass(frozen=True)
class Family:
    """How checkpoints become GGUF files of an architecture.

    `read_architecture` gives the GGUF name of the facts by which a checkpoint is read, where its class is that of
    several architectures; the facts of the others have no class. `file_architecture` gives the name in the file, where
    it is another. `check` refuses variants by what they have: it raises UnsupportedModelError. `write` adds the
    architecture's keys after those of sizes, RoPE and norms. The rest of the metadata is as llama.cpp's converter has
    it: `leading` are the full names of keys that it writes before all others, `order` those that it writes before
    others of the architecture (one that begins with "general." is a full name), and `omitted` gives those that it does
    not write.

    `sources` turns the tensors of the checkpoint, under their GGUF names, into those of the file. `lacks` gives the
    GGUF stems of tensors that a layer may lack. `padded` are stems of matrices that may have fewer rows than the model
    has tokens; rows of zeros are added. `parameters` are tensors of layers, by Hugging Face stem, that become metadata.
    With `drops_tied_output`, an output matrix beside `tie_word_embeddings` is left out. With `separate_prediction`,
    checkpoints keep layers for multi-token prediction apart, as tensors `mtp`.

    `rope_kinds` are the types of RoPE, and `partial_rotary` says whether heads may be rotated in part. `activations`
    are values of `hidden_act` that mean the architecture's activation besides its usual names.
    """

    read_architecture: Callable[[Config], str] | None = None
    file_architecture: Callable[[TextModel], str] = own_architecture
    check: Callable[[Config], None] = accept
    sizes: SizesReader = read_sizes
    write: Callable[[ArchitectureKeys, TextModel], None] = write_window
    order: tuple[str, ...] = ()
    leading: tuple[str, ...] = ()
    omitted: Callable[[TextModel], Collection[str]] = no_keys
    sources: Callable[[TextModel, list[Source]], list[Source]] = llama3_rope
    rope_kinds: tuple[str, ...] = (*PLAIN, *SCALED)
    partial_rotary: bool = False
    activations: tuple[str, ...] = ()
    lacks: Callable[[TextModel, int], Collection[str]] = no_stems
    padded: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    drops_tied_output: bool = False
    separate_prediction: bool = False
