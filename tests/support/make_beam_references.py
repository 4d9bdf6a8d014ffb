"""Search with the beams of `transformers` in checkpoints of `support.families`, whose logits it computes in float64.

    python -m support.make_beam_references

Needs torch and transformers (made with torch 2.14.1 and transformers 5.24.0), which the tests do not.
"""

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

from support.beam_references import BEAM_REFERENCES, CASES, END, MAX_TOKENS, OTHER_END, PROMPT, SEARCHES
from support.families import CASES as FAMILIES
from support.families.checkpoint import write_family_checkpoint
from support.families.references import load_reference
from support.make_family_references import opened


class Biased(transformers.LogitsProcessor):
    """Adds a bias to the logit of END before the softmax, and leaves no probability to OTHER_END."""

    def __init__(self, bias: float) -> None:
        self.bias = bias

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """The log-probabilities with the bias."""
        scores[:, END] += self.bias
        scores[:, OTHER_END] = -math.inf
        return torch.log_softmax(scores, -1)


def searched(model: Any, beams: int, bias: float) -> tuple[list[list[int]], list[float]]:
    """The tokens of all replies, best first, and their scores."""
    found = model.generate(
        torch.tensor([PROMPT]),
        num_beams=beams,
        num_return_sequences=beams,
        max_new_tokens=MAX_TOKENS,
        do_sample=False,
        length_penalty=1.0,
        early_stopping=False,
        eos_token_id=END,
        pad_token_id=0,
        logits_processor=[Biased(bias)],
        return_dict_in_generate=True,
        output_scores=True,
    )
    rows = [row[len(PROMPT) :].tolist() for row in found.sequences]
    tokens = [row[: row.index(END) + 1] if END in row else row for row in rows]
    return tokens, [round(score, 6) for score in found.sequences_scores.tolist()]


def main() -> None:
    """Write the file."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    made = {}
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            model = opened(write_family_checkpoint(Path(folder), FAMILIES[name], load_reference(name).tensors))
            made[name] = [searched(model, *search) for search in SEARCHES]
    lines = (f'  "{name}": {json.dumps(searches)}' for name, searches in made.items())
    BEAM_REFERENCES.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
