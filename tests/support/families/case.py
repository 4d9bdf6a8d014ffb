"""A tiny model of a family: its config.json as the family publishes it, with small numbers, and what it exercises."""

from dataclasses import dataclass
from typing import Any

VOCABULARY = 271
"""Tokens of each model: those of the tokenizer."""


@dataclass(frozen=True)
class FamilyCase:
    """One checkpoint.

    `architecture` is the `general.architecture` of its GGUF file, `exercises` says which settings it is there for.
    `context` is the context length that an engine opens it with, in tokens: LongRoPE chooses its factors by it.
    """

    architecture: str
    exercises: str
    config: dict[str, Any]
    context: int = 1024

    @property
    def has_window(self) -> bool:
        """Whether some layers see a window that is smaller than the prompt."""
        window = self.config.get("text_config", self.config).get("sliding_window")
        return window is not None and window < self.context


def decoder(model_type: str, architecture: str, **settings: Any) -> dict[str, Any]:
    """A config.json of a decoder with the usual names and small sizes; `settings` add to it or replace."""
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_act": "silu",
        "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "torch_dtype": "bfloat16",
        **settings,
    }


def nested(model_type: str, architecture: str, text: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """A config.json of a model with a vision tower: the decoder's is in text_config."""
    inner = {key: value for key, value in text.items() if key not in ("architectures", "torch_dtype")}
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "text_config": inner,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": text["tie_word_embeddings"],
        **settings,
    }


def pattern(*kinds: str, layers: int) -> list[str]:
    """layer_types: "local" and "full" layers in turn, `layers` in all."""
    names = {"local": "sliding_attention", "full": "full_attention"}
    return [names[kinds[i % len(kinds)]] for i in range(layers)]
