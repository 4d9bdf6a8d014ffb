"""The published vocabularies: ids as llama.cpp's own test files have them, and as llama.cpp finds them."""

import unicodedata

import pytest

from edgellm.text.tokenizer import Tokenizer
from support import SHARED
from support.oracle import llama_cpp_tokens

NAMES = ("llama-spm", "gpt-2", "llama-bpe", "falcon", "qwen2")
STRANGE = (
    "\t\x1c\x85\u00a0x\u2003 y\u200b\u3000z ǅ ſS 'S 'ſ ¼½ ٣٤٥٦ 中文 คน 👩‍🚀\ufe0f é e\u0301 I'LL we'Re\r\n\n \n  a  \n"
)
pytestmark = pytest.mark.skipif(not (SHARED / "vocab").is_dir(), reason="no shared data beside the project")


@pytest.mark.parametrize("name", NAMES)
def test_ids_of_all_published_texts(name: str) -> None:
    path = SHARED / "vocab" / f"{name}.gguf"
    texts = path.with_name(path.name + ".inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    lines = path.with_name(path.name + ".out").read_text().split("\n")
    tokenizer = Tokenizer.open(path)
    assert len(texts) == len(lines) > 40
    for text, line in zip(texts, lines, strict=True):
        ids = [int(word) for word in line.split()]
        assert tokenizer.encode(text) == ids, repr(text)
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("special", [False, True])
def test_ids_of_prose_and_strange_text_are_llama_cpps(name: str, special: bool) -> None:
    path = SHARED / "vocab" / f"{name}.gguf"
    prose = (SHARED / "text" / "wiki.test.raw").read_text(encoding="utf-8")[:20_000]
    end = "" if name == "qwen2" else "</s>"  # plain text there, which llama.cpp takes for an end
    text = f"{STRANGE}<s>a{end} b<|eot_id|>\n<|endoftext|><|fim_prefix|>>>TITLE<<<|file_sep|>{prose}<unk>"
    tokenizer = Tokenizer.open(path)
    ours = tokenizer.encode(text, add_special=True, parse_special=special)
    if name == "qwen2":
        text = unicodedata.normalize("NFC", text)  # as its makers do, and llama.cpp does not
    assert ours == llama_cpp_tokens(path, text, add_bos=True, special=special)


def test_roles_of_the_published_vocabularies() -> None:
    spm, gpt2, bpe, falcon, qwen = (Tokenizer.open(SHARED / "vocab" / f"{name}.gguf") for name in NAMES)
    assert (spm.n_vocab, spm.bos_id, spm.eos_id, spm.unk_id, spm.add_bos) == (32000, 1, 2, 0, True)
    assert (gpt2.bos_id, gpt2.add_bos, gpt2.eog_ids) == (50256, False, {50256})
    assert (bpe.bos_id, bpe.add_bos, bpe.add_eos) == (128000, True, False)
    assert bpe.eog_ids == {128001, 128008, 128009}  # <|end_of_text|>, <|eom_id|>, <|eot_id|>
    assert (falcon.bos_id, falcon.add_bos, falcon.eog_ids) == (11, False, {11})
    assert (qwen.bos_id, qwen.add_bos, qwen.eos_id) == (151643, False, 151645)
    assert qwen.eog_ids == {151643, 151645, 151662, 151663, 151664}  # the last three part files: <|file_sep|>, ...
    assert bpe.chat_template is not None and "<|start_header_id|>" in bpe.chat_template
