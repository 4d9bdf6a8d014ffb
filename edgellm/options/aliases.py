"""Names of options in other programs, and misspelled names."""

from collections.abc import Iterable

OPTION_ALIASES = {
    "chat_template": "template",
    "context_length": "ctx",
    "ctx_size": "ctx",
    "draft_model": "draft",
    "draft_n": "draft_max",
    "max_new_tokens": "max_tokens",
    "n_ctx": "ctx",
    "n_gpu_layers": "gpu_layers",
    "model_draft": "draft",
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
    "spec_draft_model": "draft",
    "spec_draft_n_max": "draft_max",
    "system_prompt": "system",
    "temperature": "temp",
}
"""From the names of options in llama.cpp, ollama and transformers to ours of the same meaning."""

_ALIKE = 0.7
"""The smallest similarity (ratio of `difflib`) of a misspelled name."""


def closest_match(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to `name`; None if none is similar enough."""
    from difflib import get_close_matches  # needed after an error alone

    return next(iter(get_close_matches(name, known, 1, _ALIKE)), None)
