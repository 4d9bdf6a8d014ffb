"""Floor 2: GGUF files, read through a memory map and trusted in nothing."""
