"""Small models to begin with, of architectures that edgellm supports."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Suggestion:
    """A reference to pull, its approximate size in bytes, and what the model is good at."""

    reference: str
    bytes: int
    good_at: str

    def fits(self, memory: int) -> bool:
        """Whether the model runs in `memory` bytes."""
        return fits(self.bytes, memory)


def fits(nbytes: int, memory: int) -> bool:
    """Whether a model of `nbytes` runs in `memory` bytes, with some room for the KV cache of a chat."""
    return nbytes + nbytes // 8 + (200 << 20) <= memory


SUGGESTIONS = (
    Suggestion("bartowski/SmolLM2-360M-Instruct-GGUF", 271_000_000, "the smallest, for old machines"),
    Suggestion("Qwen/Qwen2.5-0.5B-Instruct-GGUF", 491_000_000, "short answers in many languages"),
    Suggestion("Qwen/Qwen3-0.6B-GGUF", 639_000_000, "thinks first, many languages"),
    Suggestion("bartowski/Llama-3.2-1B-Instruct-GGUF", 808_000_000, "chat, summaries, rewriting"),
    Suggestion("bartowski/SmolLM2-1.7B-Instruct-GGUF", 1_060_000_000, "English chat and writing"),
    Suggestion("Qwen/Qwen2.5-1.5B-Instruct-GGUF", 1_120_000_000, "the best all-rounder of its size"),
    Suggestion("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", 1_120_000_000, "code, fast enough to wait for"),
    Suggestion("Qwen/Qwen3-1.7B-GGUF", 1_830_000_000, "thinks first, math and languages"),
    Suggestion("bartowski/Llama-3.2-3B-Instruct-GGUF", 2_020_000_000, "chat and long texts"),
    Suggestion("Qwen/Qwen3-4B-GGUF", 2_500_000_000, "thinks first, a good all-rounder"),
    Suggestion("Qwen/Qwen2.5-Coder-7B-Instruct-GGUF", 4_680_000_000, "code"),
    Suggestion("Qwen/Qwen3-8B-GGUF", 5_030_000_000, "thinks first, for hard questions"),
)
"""Ordered by size: that of Q4_K_M, or of the only quantization in the repository."""
