"""The tiny model and the prompt of the tests of generation."""

from typing import Any

TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
RECURRENT: dict[str, Any] = {**TINY, "arch": "qwen35"}
"""A layer with a recurrent state and one with attention."""

PROMPT = "the time was and"
BOS, EOS, EOT = 1, 2, 300
BYTES = range(3, 259)  # the ids of the bytes 0 … 255 in the tiny vocabulary
NEVER = -float("inf")
NO_END = {EOS: NEVER, EOT: NEVER}
GREEDY: dict[str, Any] = {"max_tokens": 40, "temp": 0, "logit_bias": NO_END}
