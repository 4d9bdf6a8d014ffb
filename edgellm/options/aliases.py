"""Names that are meant by others: those of other programs, and slips of the fingers."""

from collections.abc import Iterable

OPTION_ALIASES = {
    "chat_template": "template",
    "context_length": "ctx",
    "ctx_size": "ctx",
    "max_new_tokens": "max_tokens",
    "n_ctx": "ctx",
    "n_gpu_layers": "gpu_layers",
    "n_predict": "max_tokens",
    "n_threads": "threads",
    "num_ctx": "ctx",
    "num_gpu": "gpu_layers",
    "num_predict": "max_tokens",
    "num_thread": "threads",
    "predict": "max_tokens",
    "repeat_last_n": "penalty_last_n",
    "repetition_penalty": "repeat_penalty",
    "reverse_prompt": "stop",
    "system_prompt": "system",
    "temperature": "temp",
}
"""What llama.cpp, ollama and transformers call options of the same meaning, and ours."""

_ALIKE = 0.7
"""From this ratio of `difflib` on a name is taken for a slip of another."""


def closest_match(name: str, known: Iterable[str]) -> str | None:
    """The name that another is a slip of, if it is like enough."""
    from difflib import get_close_matches  # most commands end without it

    return next(iter(get_close_matches(name, known, 1, _ALIKE)), None)
