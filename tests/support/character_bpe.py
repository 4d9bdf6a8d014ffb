"""A small tokenizer.json of BPE over characters, in the form that Gemma 3 and 4 are published in."""

from itertools import product
from typing import Any

from support.vocabulary_folder import added, template

SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>", "<|channel>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
RUNS = [run * n for run in ("\n", "▁", "\t") for n in range(1, 9)]
LETTERS = [*"etaoinshr.,'!<>/b中é", "\u0301"]
WORDS = ["th", "he", "the", "in", "an", "▁t", "▁th", "▁the", "▁a", "▁an", "er", "ere", "here", "▁in▁the", "<b", "<b>"]
TEXTS = [
    "the there in the  heathen\n\n\tA 日本 中é e\u0301 <b>the</b>",
    "\n" * 11 + " " * 19 + "\t" * 3 + "the▁the",
    "<0x41> <unk> <|channel> \x00\x7f \U0001f600\U0001f469\u200d\U0001f680",
]


def tokenizer_json(more: tuple[dict[str, Any], ...] = (), **parts: Any) -> dict[str, Any]:
    """Special tokens, bytes, runs of white space, letters, words; `more` are further added tokens.

    As in Gemma's files, every way to make a token of two others is a merge, longer tokens first among the runs.
    """
    tokens = {text: i for i, text in enumerate([*SPECIAL, *BYTES, *RUNS, *LETTERS, *WORDS])}
    made = [*sorted(RUNS, key=len, reverse=True), *WORDS]
    merges = [
        [text[:at], text[at:]]
        for text in made
        for at in range(1, len(text))
        if text[:at] in tokens and text[at:] in tokens
    ]
    model = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "ignore_merges": False}
    return {
        "version": "1.0",
        "added_tokens": [*(added(i, text) for i, text in enumerate(SPECIAL)), *more],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "post_processor": template("<bos>", "A", pair=["<bos>", "A", "<bos>", "B"]),
        "decoder": None,
        "model": model | {"vocab": tokens, "merges": merges},
        **parts,
    }


SETTINGS = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"}
HARD = [
    "".join(pair) for pair in product(("the", " the", "  ", "\n", "\n" * 9, "▁", "é", "日", "<b>", "in the"), repeat=2)
]
