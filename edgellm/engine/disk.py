"""Models that are larger than the memory: their experts are read from the disk as they are chosen."""

from edgellm.arch.description import Description, parts_in
from edgellm.arch.mixture import MixtureOfExperts
from edgellm.gguf import GGUFFile, Tensor
from edgellm.gguf.page_cache import read_pages_alone
from edgellm.system.machine import available_memory


def expert_stacks(model: Description) -> list[Tensor]:
    """The weights of all experts, each tensor once; an expert is an equal part of each."""
    stacks = (stack for block in parts_in(model.layers, MixtureOfExperts) for stack in block.stacks)
    return list(dict.fromkeys(stack.weight for stack in stacks))


def prepare_for_disk(file: GGUFFile, model: Description) -> bool:
    """Whether experts are read from the disk, as the file is larger than the free memory.

    Then the system is told to read no pages beside those of a chosen expert.
    """
    stacks = expert_stacks(model)
    if not stacks or file.nbytes <= available_memory():
        return False
    read_pages_alone(stacks)
    return True
