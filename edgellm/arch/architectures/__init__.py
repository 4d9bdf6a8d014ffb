"""The architectures that edgellm runs: one file each, with its facts, named like its GGUF `general.architecture`."""

from edgellm.arch.architectures import llama, qwen2, qwen3
from edgellm.arch.facts import ArchitectureFacts

ARCHITECTURES: dict[str, ArchitectureFacts] = {each.FACTS.name: each.FACTS for each in (llama, qwen2, qwen3)}
"""Facts by GGUF name."""
