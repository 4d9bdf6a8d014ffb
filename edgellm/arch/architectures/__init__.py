"""The architectures that edgellm runs: one file each, with its facts, named like its GGUF `general.architecture`."""

from edgellm.arch.architectures import gemma, gemma2, gemma3, gemma3n, gemma4, llama, qwen2, qwen3
from edgellm.arch.facts import ArchitectureFacts

_FILES = (gemma, gemma2, gemma3, gemma3n, gemma4, llama, qwen2, qwen3)

ARCHITECTURES: dict[str, ArchitectureFacts] = {each.FACTS.name: each.FACTS for each in _FILES}
"""Facts by GGUF name."""
