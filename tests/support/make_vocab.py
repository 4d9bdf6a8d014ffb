"""The vocabularies of the small test models, with the gguf package as the writer.

"llama" is SentencePiece-style (3 special tokens, 256 bytes, letters, then words), "gpt2" byte-level BPE with
the pre-tokenizer gpt-2 (<|end|>, 256 bytes, merges, then tokens no text can reach). "harmony" is the same with the
control tokens of gpt-oss, before those that no text can reach, "thought channel" with those of Gemma 4, and
"calls NAME" with those of the call format NAME, "calls NAME TAG TAG" also with tags around thoughts.
"""

from collections.abc import Iterator

import gguf

from support.call_styles import BY_NAME

PIECES = ["th", "he", "in", "er", "an", "nd", "on", "the", "and", "st", "ing", "ti", "me", "time", "was"]
HARMONY = ("<|return|>", "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|call|>")
THOUGHT_CHANNEL = ("<turn|>", "<|turn>", "<|channel>", "<channel|>", "<|think|>")
MERGES = ["Ġ t", "h e", "Ġt he", "i n", "r e", "o n", "Ġ a", "e r", "Ġa n", "Ġan d", "Ġ s", "in g"]


def write_vocabulary(writer: gguf.GGUFWriter, kind: str, size: int) -> None:
    """Write the vocabulary `kind` with `size` tokens, at least 320."""
    if kind.startswith("calls "):
        name = next(name for name in sorted(BY_NAME, key=len, reverse=True) if kind.startswith(f"calls {name}"))
        _gpt2(writer, size, ("<|stop|>", *BY_NAME[name].marks, *kind.removeprefix(f"calls {name}").split()))
        return
    {"llama": _llama, "gpt2": _gpt2, "harmony": _harmony, "thought channel": _thought_channel}[kind](writer, size)


def _llama(writer: gguf.GGUFWriter, size: int) -> None:
    letters = ["▁", *"etaoinshrdlcumwfgypbvkjxqz.,'"]
    words = dict.fromkeys(letters + PIECES + [f"▁{piece}" for piece in PIECES])
    words |= dict.fromkeys(f"▁w{i}" for i in range(size))
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words][:size]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + [-float(i) for i in range(size - 259)])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (size - 259))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def _harmony(writer: gguf.GGUFWriter, size: int) -> None:
    _gpt2(writer, size, HARMONY)


def _thought_channel(writer: gguf.GGUFWriter, size: int) -> None:
    _gpt2(writer, size, THOUGHT_CHANNEL)


def _gpt2(writer: gguf.GGUFWriter, size: int, controls: tuple[str, ...] = ()) -> None:
    tokens = ["<|end|>", *byte_letters(), *(merge.replace(" ", "") for merge in MERGES)]
    normal, spare = len(tokens) - 1, size - len(tokens) - len(controls)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*tokens, *controls, *(f"<|spare {i}|>" for i in range(spare))])
    writer.add_token_types([3] + [1] * normal + [3] * len(controls) + [5] * spare)
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(len(tokens) if controls else 0)


def byte_letters() -> Iterator[str]:
    """The letters that stand for bytes 0..255 in GPT-2's vocabulary (`bytes_to_unicode` of its encoder)."""
    spare = iter(range(256, 512))
    for byte in range(256):
        printable = 33 <= byte <= 126 or (161 <= byte <= 255 and byte != 173)
        yield chr(byte if printable else next(spare))
