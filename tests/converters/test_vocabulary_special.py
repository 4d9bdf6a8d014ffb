"""Roles of tokens, what goes around a text, chat templates: by hand, and as the gguf package finds them."""

import tempfile
import warnings
from itertools import chain
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm.errors import EdgeLLMWarning, ModelFileError, UnsupportedModelError
from support.vocabulary_folder import Folder, added, bpe, template

TEXTS = ["<s>", "</s>", "<pad>", "<e>"]
ADDED = [added(257 + i, text) for i, text in enumerate(TEXTS)]


def ids_and_flags(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key.endswith("_token_id") or key.startswith("add_")}


def made(path: Path, post_processor: Any, tokens: Any, config: dict[str, Any] | None = None) -> dict[str, Any]:
    tokenizer = bpe(["h e"], ADDED, post_processor=post_processor)
    folder = Folder(path, config, tokenizer__json=tokenizer, tokenizer_config__json=tokens)
    return ids_and_flags(folder.values())


def test_llama_3_adds_bos_alone(tmp_path: Path) -> None:
    begins = template("<s>", "A", pair=["<s>", "A", "<s>", "B"])
    both = {"type": "Sequence", "processors": [{"type": "ByteLevel", "trim_offsets": False}, begins]}
    found = made(tmp_path, both, {"bos_token": "<s>", "eos_token": "</s>"})
    assert list(found.items()) == [
        ("bos_token_id", 257),
        ("eos_token_id", 258),
        ("add_bos_token", True),
        ("add_eos_token", False),
        ("add_sep_token", False),
    ]


def test_the_template_overrules_the_settings(tmp_path: Path) -> None:
    settings = {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": False, "add_eos_token": True}
    found = made(tmp_path, template("<s>", "A"), settings)
    assert (found["add_bos_token"], found["add_eos_token"]) == (True, True)


def test_another_eos_in_the_template_makes_the_first_one_eot(tmp_path: Path) -> None:
    found = made(tmp_path, template("A", "<e>"), {"eos_token": "</s>", "pad_token": {"content": "<pad>"}})
    assert found == {"eos_token_id": 260, "padding_token_id": 259, "eot_token_id": 258, "add_eos_token": True}


def test_another_bos_in_the_template_is_added_all_the_same(tmp_path: Path) -> None:
    found = made(tmp_path, template("<e>", "A"), {"bos_token": {"content": "<s>"}})
    assert found == {"bos_token_id": 257, "add_bos_token": True}


def test_config_names_what_the_tokenizer_does_not(tmp_path: Path) -> None:
    config = {"bos_token_id": 3, "eos_token_id": 258, "pad_token_id": -1, "text_config": {"unk_token_id": 7}}
    wanted = {"bos_token_id": 257, "eos_token_id": 258, "unknown_token_id": 7}
    assert made(tmp_path, None, {"bos_token": "<s>"}, config) == wanted


def test_a_role_beyond_the_vocabulary_is_left_out(tmp_path: Path) -> None:
    with pytest.warns(EdgeLLMWarning, match="pad token is 400, but the vocabulary ends at 261"):
        assert made(tmp_path, None, {}, {"pad_token_id": 400, "eos_token_id": 1}) == {"eos_token_id": 1}


@pytest.mark.parametrize("odd", ["1", [1], 1.0, True])
def test_a_role_of_an_odd_type_is_left_out_and_reported(tmp_path: Path, odd: Any) -> None:
    with pytest.warns(EdgeLLMWarning, match=r"config\.json: bos_token_id is .*, which is no id; it is left out"):
        assert made(tmp_path, None, {}, {"bos_token_id": odd, "eos_token_id": 1}) == {"eos_token_id": 1}


def test_a_negative_role_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"config\.json: eos_token_id is -7"):
        made(tmp_path, None, {}, {"eos_token_id": -7})


def test_an_unknown_post_processor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=r'tokenizer\.json: its post-processor "RobertaProcessing"'):
        made(tmp_path, {"type": "RobertaProcessing"}, {})


def test_families_that_llama_cpp_knows_by_size(tmp_path: Path) -> None:
    folder = Folder(tmp_path, tokenizer__json=bpe(["h e"]), tokenizer_config__json={"add_bos_token": True})
    assert folder.values(49152)["add_bos_token"] is False
    assert folder.values(32016)["eot_token_id"] == 32010
    folder.config["model_type"] = "qwen2"
    assert folder.values(49152)["add_bos_token"] is True


@pytest.mark.parametrize(
    ("kind", "texts", "roles"),
    [
        ("glm4", ["<|endoftext|>", "<|user|>"], {"eos": 257, "eot": 258, "unknown": 257, "bos": 257}),
        (
            "glm4_moe",
            ["<|endoftext|>", "[gMASK]", "<|user|>", "<|observation|>"],
            {"eos": 257, "unknown": 257, "bos": 258, "eot": 259, "eom": 260},
        ),
        ("laguna", ["</s>", "</assistant>"], {"eos": 257, "eot": 258}),
        ("muse_glimmer", ["<|end_of_text|>", "<|eot|>"], {"eos": 257, "eot": 258}),
        ("gemma", ["<eos>", "<end_of_turn>"], {"eos": 257, "eot": 258}),
        ("gemma2", ["<eos>", "<end_of_turn>"], {"eos": 257}),
    ],
)
def test_roles_that_llama_cpp_gives_to_the_tokens_of_a_family(
    tmp_path: Path, kind: str, texts: list[str], roles: dict[str, int]
) -> None:
    tokenizer = bpe(["h e"], [added(257 + i, text) for i, text in enumerate(texts)])
    named = {} if kind == "glm4" else {"eos_token": texts[0]}
    folder = Folder(tmp_path, {"model_type": kind}, tokenizer__json=tokenizer, tokenizer_config__json=named)
    assert ids_and_flags(folder.values()) == {f"{role}_token_id": i for role, i in roles.items()}


def test_the_end_of_a_turn_in_laguna_is_a_control_token_though_not_special(tmp_path: Path) -> None:
    """A text of the user that spells it is then no end of a turn."""
    plain = {"special": False}
    tokenizer = bpe(["h e"], [added(257, "</assistant>") | plain, added(258, "</think>") | plain])
    types = Folder(tmp_path, {"model_type": "laguna"}, tokenizer__json=tokenizer).values()["token_type"]
    assert types[257:259] == [3, 4]
    types = Folder(tmp_path, {"model_type": "llama"}, tokenizer__json=tokenizer).values()["token_type"]
    assert types[257:259] == [4, 4]


def test_a_role_that_the_files_give_stays(tmp_path: Path) -> None:
    tokenizer = bpe(["h e"], [added(257, "<|endoftext|>"), added(258, "<|user|>"), added(259, "[gMASK]")])
    settings = {"eos_token": "<|user|>", "bos_token": "[gMASK]"}
    folder = Folder(tmp_path, {"model_type": "glm4"}, tokenizer__json=tokenizer, tokenizer_config__json=settings)
    made = folder.values()
    assert (made["bos_token_id"], made["eos_token_id"], made["unknown_token_id"]) == (259, 258, 257)


TOKEN = st.sampled_from([*TEXTS, {"content": "<s>"}, {"content": 3}, "<none>", None, ""])
AROUND = st.lists(st.sampled_from(TEXTS), max_size=1)
SINGLE = st.tuples(AROUND, st.just(["A"]), AROUND)
PAIR = st.tuples(AROUND, st.just(["A"]), st.lists(st.sampled_from(TEXTS), max_size=3), st.just(["B"]), AROUND)
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
# Of several ends, and of others than the tokenizer's, the package knows nothing.
IDS = st.dictionaries(
    st.sampled_from([f"{role}_token_id" for role in ROLES if role != "eos"]), st.sampled_from([0, 5, None, [1, 2]])
)
TOKENS = st.dictionaries(st.sampled_from([f"{role}_token" for role in ROLES]), TOKEN, min_size=1)


@settings(max_examples=150, deadline=None)
@given(SINGLE, PAIR, TOKENS, IDS)
def test_templates_are_read_as_the_gguf_package_reads_them(
    single: tuple[list[str], ...], pair: tuple[list[str], ...], tokens: dict[str, Any], ids: dict[str, Any]
) -> None:
    around = template(*chain(*single), pair=[*chain(*pair)])
    if single[0]:
        tokens["bos_token"] = single[0][0]  # versions of the package differ over another one
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name), ids, config__json=ids)
        folder.write("tokenizer.json", bpe(["h e"], ADDED, post_processor=around))
        folder.write("tokenizer_config.json", tokens)
        writer = gguf.GGUFWriter(None, "llama")
        writer.kv_data[0].clear()
        gguf.SpecialVocab(name, n_vocab=261).add_to_gguf(writer, quiet=True)
        wanted = {key.removeprefix("tokenizer.ggml."): value.value for key, value in writer.kv_data[0].items()}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*which is no id; it is left out", EdgeLLMWarning)
            assert list(ids_and_flags(folder.values()).items()) == list(wanted.items())


def templates(folder: Folder) -> dict[str, Any]:
    return {key: value for key, value in folder.values().items() if "chat_template" in key}


def test_chat_templates(tmp_path: Path) -> None:
    folder = Folder(tmp_path, tokenizer__json=bpe(["h e"]), chat_template__json={"chat_template": "from json"})
    assert templates(folder) == {"tokenizer.chat_template": "from json"}
    choices = [{"name": "rag", "template": "r"}, {"name": "default", "template": "from config"}]
    folder.write("tokenizer_config.json", {"chat_template": choices})
    of_config = [("chat_template.rag", "r"), ("chat_templates", ["rag"]), ("chat_template", "from config")]
    assert list(templates(folder).items()) == [(f"tokenizer.{key}", value) for key, value in of_config]
    (tmp_path / "additional_chat_templates").mkdir()
    folder.write("additional_chat_templates/tool-use.jinja", "tools")
    both = templates(folder)
    assert both["tokenizer.chat_templates"] == ["rag", "tool_use"]
    assert both["tokenizer.chat_template"] == "from config"
    folder.write("chat_template.jinja", "\ufefffrom\r\njinja")
    assert list(templates(folder).items()) == [
        ("tokenizer.chat_template.tool_use", "tools"),
        ("tokenizer.chat_templates", ["tool_use"]),
        ("tokenizer.chat_template", "from\njinja"),
    ]


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("jinja", ["new", None])
@pytest.mark.parametrize("said", ["old", [{"name": "default", "template": "old"}, {"name": "rag", "template": "r"}]])
def test_the_template_is_the_one_that_transformers_takes(
    tmp_path: Path, said: Any, jinja: str | None, more: bool
) -> None:
    from transformers import PreTrainedTokenizerFast

    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": said}
    folder = Folder(tmp_path, tokenizer__json=bpe(["h e"]), tokenizer_config__json=settings)
    if jinja:
        folder.write("chat_template.jinja", jinja)
    if more:
        (tmp_path / "additional_chat_templates").mkdir()
        folder.write("additional_chat_templates/tools.jinja", "t")
    theirs = PreTrainedTokenizerFast.from_pretrained(tmp_path).chat_template
    wanted = theirs if isinstance(theirs, dict) else {"default": theirs}
    if more and not jinja:  # where transformers forgets the others, and has none without a name
        wanted = {"default": "old"} | ({"rag": "r"} if isinstance(said, list) else {}) | wanted
    ours = templates(folder)
    assert ours.pop("tokenizer.chat_template", None) == wanted.pop("default", None)
    assert ours.pop("tokenizer.chat_templates", []) == list(wanted)
    assert ours == {f"tokenizer.chat_template.{name}": text for name, text in wanted.items()}


@pytest.mark.parametrize("wrong", [5, ["x"], [{"name": 1, "template": "t"}], {"default": "x"}])
def test_chat_templates_that_are_no_text(tmp_path: Path, wrong: Any) -> None:
    settings = {"chat_template": wrong}
    with pytest.raises(ModelFileError, match=r"tokenizer_config\.json: chat_template.* instead of"):
        Folder(tmp_path, tokenizer__json=bpe(["h e"]), tokenizer_config__json=settings).values()
