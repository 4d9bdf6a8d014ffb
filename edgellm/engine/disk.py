"""Models that are larger than the memory: their experts are read from the disk as they are chosen."""

from edgellm.arch.blocks import MixtureOfExperts, StackedLinear
from edgellm.arch.description import Description, parts_in
from edgellm.gguf import GGUFFile, Tensor
from edgellm.gguf.page_cache import read_pages_alone
from edgellm.system.machine import available_memory


def expert_stacks(model: Description) -> list[Tensor]:
    """The weights of all experts, each tensor once; an expert is an equal part of each."""
    blocks = [layer.feed_forward for layer in model.layers if isinstance(layer.feed_forward, MixtureOfExperts)]
    return list({id(stack.weight): stack.weight for stack in parts_in(blocks, StackedLinear)}.values())


def prepare_for_disk(file: GGUFFile, model: Description) -> bool:
    """Whether experts are read from the disk, as the file is larger than the free memory.

    Then the system is told to read no pages beside those of a chosen expert.
    """
    stacks = expert_stacks(model)
    if not stacks or file.nbytes <= available_memory():
        return False
    read_pages_alone(stacks)
    return True
