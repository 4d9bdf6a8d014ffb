"""Which tokens end a reply: those that a checkpoint names, all of them, here and in llama.cpp."""

from pathlib import Path
from typing import Any

import pytest

from converters import convert
from edgellm import Model
from edgellm.errors import EdgeLLMWarning
from edgellm.gguf import GGUFFile
from edgellm.text.tokenizer import Tokenizer
from support.make_checkpoint import write_checkpoint
from support.oracle import llama_cpp_ends
from support.tiny_vocab import write_bpe
from support.vocabulary_folder import Folder, added, bpe

ADDED = [added(257 + i, text) for i, text in enumerate(["<s>", "</s>", "<|eot_id|>", "<e>", "<f>", "<g>"])]


def folder_of(path: Path, generation: Any, config: Any = None, eos: str | None = "</s>") -> Folder:
    """A checkpoint whose tokenizer has the EOS 258 unless said otherwise."""
    settings = {"bos_token": "<s>", "eos_token": eos}
    folder = Folder(path, {"eos_token_id": config}, tokenizer__json=bpe(["h e"], ADDED))
    folder.write("tokenizer_config.json", settings)
    folder.write("generation_config.json", {"eos_token_id": generation})
    return folder


@pytest.mark.parametrize(
    ("generation", "config", "keys", "ends"),
    [
        (258, 258, {"eos_token_id": 258}, {258}),
        (None, None, {"eos_token_id": 258}, {258}),
        ([258, 260], None, {"eos_token_id": 258, "eot_token_id": 260, "eos_token_ids": [258, 260]}, {258, 260}),
        ([260, 258], 258, {"eos_token_id": 258, "eot_token_id": 260, "eos_token_ids": [258, 260]}, {258, 260}),
        (260, [258, 0], {"eos_token_id": 258, "eot_token_id": 260, "eom_token_id": 0}, {0, 258, 260}),
        ([258, -1, None], None, {"eos_token_id": 258}, {258}),
        # llama.cpp knows <|eot_id|> by its text.
        ([258, 259], None, {"eos_token_id": 258, "eos_token_ids": [258, 259]}, {258, 259}),
    ],
)
def test_every_end_that_a_checkpoint_names(
    tmp_path: Path, generation: Any, config: Any, keys: dict[str, Any], ends: set[int]
) -> None:
    folder = folder_of(tmp_path, generation, config)
    values = {key: value for key, value in folder.values().items() if key.startswith(("eo", "eos"))}
    assert keys.items() <= values.items()
    assert values.keys() - keys.keys() <= {"eos_token_ids"}
    path = folder.gguf()
    assert Tokenizer.open(path).eog_ids == llama_cpp_ends(path) == ends | {259}


def test_more_ends_than_llama_cpp_has_keys_for(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, [258, 260, 261, 262])
    with pytest.warns(EdgeLLMWarning, match=r"replies end at 4 tokens; llama\.cpp will not end at 262"):
        path = folder.gguf()
    assert Tokenizer.open(path).eog_ids == {258, 259, 260, 261, 262}
    assert llama_cpp_ends(path) == {258, 259, 260, 261}


def test_a_tokenizer_without_an_eos_gets_the_first(tmp_path: Path) -> None:
    values = folder_of(tmp_path, [260, 258], eos=None).values()
    assert (values["eos_token_id"], values["eot_token_id"]) == (260, 258)
    values = folder_of(tmp_path, [259, 258], eos=None).values()
    assert (values["eos_token_id"], values["eot_token_id"]) == (259, 258)


@pytest.mark.parametrize("wrong", ["258", 400, -7, 258.5, True])
def test_an_end_that_is_no_token_is_left_out_and_reported(tmp_path: Path, wrong: Any) -> None:
    folder = folder_of(tmp_path, [258, wrong])
    with pytest.warns(EdgeLLMWarning, match=r"generation_config\.json: eos_token_id has .*, which is no token of 263"):
        values = folder.values()
    assert "eos_token_ids" not in values


def test_an_end_beyond_the_vocabulary_is_reported_once(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, None, 400, eos=None)
    with pytest.warns(EdgeLLMWarning, match="the eos token is 400, but the vocabulary ends at 263") as seen:
        assert "eos_token_id" not in folder.values()
    assert len(seen) == 1


def test_ids_of_ends_in_a_file(tmp_path: Path) -> None:
    path = write_bpe(tmp_path / "v.gguf", ["h e"], {"<a>": 3}, eos_token_id=2, eos_token_ids=[2, 5, -1, 70000])
    with GGUFFile.open(path) as file:
        assert file.get_array("tokenizer.ggml.eos_token_ids", int).tolist() == [2, 5, -1, 70000]
    assert Tokenizer.open(path).eog_ids == {2, 5}


@pytest.mark.parametrize("odd", [5, "5", ["5"], [5.5]])
def test_ends_of_an_odd_type_are_none(tmp_path: Path, odd: Any) -> None:
    path = write_bpe(tmp_path / "v.gguf", ["h e"], {"<a>": 3}, eos_token_id=2, eos_token_ids=odd)
    assert Tokenizer.open(path).eog_ids == {2}


def test_a_reply_ends_at_each_of_them(tmp_path: Path) -> None:
    """In whatever order they come: the token that this model writes first is made an end."""
    folder = write_checkpoint(tmp_path / "in", family="llama")
    convert(folder, tmp_path / "plain.gguf", "F16")
    with Model.open(tmp_path / "plain.gguf") as model:
        first, second = model.generate("the", max_tokens=2, temp=0).tokens
    (folder / "generation_config.json").write_text(f'{{"eos_token_id": [2, {second}]}}')
    convert(folder, tmp_path / "ends.gguf", "F16")
    with Model.open(tmp_path / "ends.gguf") as model:
        reply = model.generate("the", max_tokens=9, temp=0)
        assert (reply.tokens, reply.finish_reason) == ([first, second], "eog")
        said = model.chat(template="{{ messages[0].content }}").send("the", max_tokens=9, temp=0)
        assert (said.tokens, said.finish_reason) == ([first, second], "eog")


def test_the_published_example_has_two(shared: Path, tmp_path: Path) -> None:
    folder = shared / "field" / "two-ends"
    if not folder.is_dir():
        pytest.skip("needs field/two-ends in the shared data folder")
    convert(folder, tmp_path / "out.gguf", "Q8_0")
    assert {2, 271} < Tokenizer.open(tmp_path / "out.gguf").eog_ids
