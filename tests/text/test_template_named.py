"""The built-in chat templates, against prompts written out by hand from each published format."""

from pathlib import Path

import pytest

from edgellm.errors import EdgeLLMError
from edgellm.text.template import ChatTemplate, template_source

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "Why?"},
]
POLITE = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions."
)

# Per name: the whole chat with the beginning of a reply, and its two middle turns without.
EXPECTED = {
    "chatml": (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n",
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n",
    ),
    "gemma": (
        "<start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n"
        "<start_of_turn>user\nWhy?<end_of_turn>\n<start_of_turn>model\n",
        "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n",
    ),
    "llama2": (
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] Why? [/INST]",
        "<s>[INST] Hi [/INST] Hello </s>",
    ),
    "llama3": (
        "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nWhy?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>",
    ),
    "mistral": (
        "[INST] Be brief.\n\nHi [/INST] Hello</s>[INST] Why? [/INST]",
        "[INST] Hi [/INST] Hello</s>",
    ),
    "phi3": (
        "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello<|end|>\n"
        "<|user|>\nWhy?<|end|>\n<|assistant|>\n",
        "<|user|>\nHi<|end|>\n<|assistant|>\nHello<|end|>\n",
    ),
    "vicuna": (
        "Be brief. USER: Hi ASSISTANT: Hello</s>USER: Why? ASSISTANT:",
        f"{POLITE} USER: Hi ASSISTANT: Hello</s>",
    ),
    "zephyr": (
        "<|system|>\nBe brief.</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello</s>\n<|user|>\nWhy?</s>\n<|assistant|>\n",
        "<|user|>\nHi</s>\n<|assistant|>\nHello</s>\n",
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_prompts_by_hand(name: str) -> None:
    template = ChatTemplate(template_source(name), "<s>", "</s>")
    whole, middle = EXPECTED[name]
    assert template.render(CHAT).text == whole
    assert template.render(CHAT[1:3], add_generation_prompt=False).text == middle


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_file_is_read_as_it_is_but_for_a_byte_order_mark(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "own.jinja"
    path.write_bytes((mark + "{{ 'ü' }}\r\n").encode())
    assert template_source(str(path)) == "{{ 'ü' }}\r\n"


def test_an_unknown_template_lists_the_names(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"{{ '\xfc' }}")
    for given, problem in (
        ("no\nsuch", "no\\nsuch is no built-in template and cannot be read: No such file"),
        (str(tmp_path), "cannot be read: "),
        ("a\0b", "cannot be read: "),
        ("../templates/chatml", "is no built-in template"),
        (str(tmp_path / "latin"), "latin is not UTF-8 text at byte 4"),
    ):
        with pytest.raises(EdgeLLMError) as error:
            template_source(given)
        message = str(error.value)
        assert message.startswith("--template: ") and problem in message and "\n" not in message
        assert message.endswith("one of: " + ", ".join(sorted(EXPECTED)))
