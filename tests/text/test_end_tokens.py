"""Tokens that end a generation, known by their text: as llama.cpp knows them, on the tokens of many families."""

from pathlib import Path

import pytest

from edgellm.text.tokenizer import Tokenizer
from support.oracle import llama_cpp_ends
from support.tiny_vocab import write_bpe

CONTROL, USER_DEFINED = 3, 4

# The control tokens of each family that matter here; the first one is EOS.
FAMILIES = {
    "gemma 3": "<eos> <bos> <start_of_turn> <end_of_turn>",
    "gemma 4": "<eos> <bos> <|turn> <turn|> <|tool_call> <tool_call|> <|tool_response> <tool_response|>",
    "gpt-oss": "<|return|> <|start|> <|end|> <|message|> <|channel|> <|call|> <|endoftext|>",
    "solar": "<|flush|> <|begin|> <|end|> <|calls|> <|endoftext|>",
    "phi": "<|endoftext|> <|user|> <|assistant|> <|end|>",
    "mistral": "</s> <s> [INST] [/INST]",
    "deepseek": "<｜end▁of▁sentence｜> <｜begin▁of▁sentence｜> <｜User｜>",
    "granite": "<|end_of_text|> <|start_of_role|> <|end_of_role|>",
    "command-r": "<|END_OF_TURN_TOKEN|> <|START_OF_TURN_TOKEN|>",
    "chatml": "<|endoftext|> <|im_start|> <|im_end|>",
    "minimax": "[e~[ ]~b] ]~!b[",
}


@pytest.mark.parametrize("name", FAMILIES)
def test_ends_are_llama_cpps(tmp_path: Path, name: str) -> None:
    controls = dict.fromkeys(FAMILIES[name].split(), CONTROL)
    path = write_bpe(tmp_path / "v.gguf", ["h e"], controls, eos_token_id=257, bos_token_id=258)
    assert Tokenizer.open(path).eog_ids == llama_cpp_ends(path)


def test_the_messages_of_harmony_end_no_reply(tmp_path: Path) -> None:
    controls = FAMILIES["gpt-oss"].split()
    path = write_bpe(tmp_path / "v.gguf", ["h e"], dict.fromkeys(controls, CONTROL), eos_token_id=257)
    ends = {controls[i - 257] for i in Tokenizer.open(path).eog_ids}
    assert ends == {"<|return|>", "<|call|>", "<|endoftext|>"}


@pytest.mark.parametrize("text", ["</s>", "<eos>", "[EOS]"])
def test_words_of_html_and_code_end_nothing_unless_the_file_makes_them_controls(tmp_path: Path, text: str) -> None:
    """llama.cpp ends at the plain word </s> of Qwen, which is HTML."""
    keys = {"eos_token_id": 257}
    plain = write_bpe(tmp_path / "v.gguf", ["h e"], {"<|x|>": CONTROL, text: USER_DEFINED}, **keys)
    assert Tokenizer.open(plain).eog_ids == {257}
    control = write_bpe(tmp_path / "w.gguf", ["h e"], {"<|x|>": CONTROL, text: CONTROL}, **keys)
    assert Tokenizer.open(control).eog_ids == {257, 258}
