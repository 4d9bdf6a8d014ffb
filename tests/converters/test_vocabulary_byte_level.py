"""tokenizer.json of byte-level BPE: its tokens and merges in GGUF, and the ids that texts get from them."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Library

from edgellm.errors import EdgeLLMWarning, ModelFileError, UnsupportedModelError
from edgellm.gguf import GGUFFile
from edgellm.text.pretokenizers import PRE_TOKENIZERS
from edgellm.text.tokenizer import Tokenizer
from support.oracle import llama_cpp_tokens
from support.published import GPT4O, LLAMA3, PUBLISHED, QWEN2, TEKKEN, cuts
from support.vocabulary_folder import BYTE_LEVEL, Folder, added, bpe, template

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
MERGES = ["Ġ t", "h e", "Ġt he", "i n", "r e", "Ġ Ġ", "1 2", "Ċ Ċ", "Ã ©"]
TEXTS = [
    "the Theatre in there's 12345 1,212.12 café",
    "\n\n \n\t  the\r\n\n   in  ",
    "中文 かな한글 ไทย עברית 😀👩🏽‍🚀",
    "<|end|>the<|end|> <tool>in</tool>  \x00~!@#'S 'll",
]


def ids_agree(folder: Folder, texts: list[str]) -> None:
    """The ids of our tokenizer on the GGUF file are those of the tokenizers library on tokenizer.json."""
    library, ours = Library.from_file(str(folder.path / "tokenizer.json")), Tokenizer.open(folder.gguf())
    for text in texts:
        wanted = library.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, parse_special=True) == wanted
        assert llama_cpp_tokens(folder.path / "vocabulary.gguf", text, special=True) == wanted


OTHERS = {
    "deepseek-r1-qwen": PUBLISHED["qwen2"] | {"post_processor": template("<|end|>", "A")},
    "tekken": {"pre_tokenizer": cuts(TEKKEN)},
    "gpt-4o": {"pre_tokenizer": cuts(GPT4O), "ignore_merges": True},
    "llama-bpe": {"pre_tokenizer": cuts(LLAMA3), "ignore_merges": True},
}


@pytest.mark.parametrize(("pre", "parts"), [*PUBLISHED.items(), *OTHERS.items()])
def test_pre_tokenizers_by_content(tmp_path: Path, pre: str, parts: dict[str, Any]) -> None:
    special = [added(265, "<|end|>"), added(266, "<tool>", special=False)]
    folder = Folder(tmp_path, tokenizer__json=bpe(MERGES, special, **parts))
    assert folder.values()["pre"] == pre
    assert pre in PRE_TOKENIZERS
    ids_agree(folder, ["|".join(TEXTS)])


def test_a_split_may_be_written_otherwise(tmp_path: Path) -> None:
    tokenizer = bpe(MERGES, pre_tokenizer=cuts(LLAMA3.replace(r"\r\n", "\r\n")))
    tokenizer["pre_tokenizer"]["pretokenizers"][0] |= {"behavior": "Removed", "invert": True}
    assert Folder(tmp_path, tokenizer__json=tokenizer).values()["pre"] == "smaug-bpe"


def test_ignore_merges_that_gguf_cannot_represent_is_a_warning(tmp_path: Path) -> None:
    folder = Folder(tmp_path, tokenizer__json=bpe(MERGES, pre_tokenizer=cuts(QWEN2), ignore_merges=True))
    with pytest.warns(EdgeLLMWarning, match=r"takes a word that is a token as that token \(ignore_merges\)"):
        assert folder.values()["pre"] == "megrez"


@pytest.mark.parametrize(
    ("kind", "parts", "pre"),
    [
        ("starcoder2", PUBLISHED["smollm"], "starcoder"),
        ("granite", PUBLISHED["smollm"], "refact"),
        ("granite", PUBLISHED["smaug-bpe"], "dbrx"),
        ("olmo2", PUBLISHED["smaug-bpe"], "dbrx"),
        ("phi3", PUBLISHED["smaug-bpe"], "dbrx"),
        ("phi3", PUBLISHED["gpt-4o"], "gpt-4o"),
        ("exaone4", PUBLISHED["gpt-2"], "exaone4"),
        ("glm4", PUBLISHED["llama-bpe"], "glm4"),
        ("stablelm", PUBLISHED["megrez"], "stablelm2"),
        ("llama4", PUBLISHED["gpt-4o"], "llama4"),
        ("hunyuan_v1_dense", PUBLISHED["deepseek-v3"], "hunyuan-dense"),
        ("hunyuan_v1_moe", PUBLISHED["megrez"], "hunyuan"),
        ("granitemoe", PUBLISHED["smollm"], "refact"),
        ("granitemoeshared", PUBLISHED["smollm"], "refact"),
        ("granitemoehybrid", PUBLISHED["smaug-bpe"], "dbrx"),
        ("falcon_h1", PUBLISHED["llama-bpe"], "falcon-h1"),
        ("falcon_mamba", PUBLISHED["falcon"], "falcon"),
        ("mamba", PUBLISHED["olmo"], "olmo"),
        ("mamba2", PUBLISHED["olmo"], "olmo"),
        ("lfm2", PUBLISHED["llama-bpe"], "lfm2"),
        ("lfm2_moe", PUBLISHED["llama-bpe"], "lfm2"),
        ("lfm2_vl", PUBLISHED["llama-bpe"], "lfm2"),
        ("nemotron_h", PUBLISHED["tekken"], "tekken"),
        ("minimax_m2", PUBLISHED["gpt-4o"], "minimax-m2"),
        ("cohere2", PUBLISHED["smollm"], "smollm"),
        ("glm4_moe", PUBLISHED["llama-bpe"], "glm4"),
        ("glm4_moe_lite", PUBLISHED["llama-bpe"], "glm4"),
        ("deepseek_v3", PUBLISHED["deepseek-v3"], "deepseek-v3"),
        ("mellum", PUBLISHED["smollm"], "mellum2"),
        ("dots1", PUBLISHED["qwen2"], "qwen2"),
        ("bailing_moe", PUBLISHED["bailingmoe"], "bailingmoe2"),
        ("cohere2_moe", PUBLISHED["tiny_aya"], "cohere2moe"),
    ],
)
def test_a_family_prefers_its_own_name_of_the_same_rules(
    tmp_path: Path, kind: str, parts: dict[str, Any], pre: str
) -> None:
    folder = Folder(tmp_path, {"model_type": kind}, tokenizer__json=bpe(MERGES, **parts))
    assert folder.values()["pre"] == pre


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ({"pre_tokenizer": cuts(r"\w+|\W+")}, r'its pre-tokenizer splits with "\\w\+\|\\W\+", which is not known'),
        ({"pre_tokenizer": BYTE_LEVEL | {"add_prefix_space": True}}, "ByteLevel add_prefix_space True"),
        (
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTE_LEVEL, {"type": "Digits"}]}},
            "ends with Digits",
        ),
        ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}}, "normalizer has Lowercase"),
        ({"end_of_word_suffix": "</w>"}, "has a end_of_word_suffix"),
        ({"post_processor": {"type": "BertProcessing"}}, "BertProcessing"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, 'its model is "BPE", neither'),
    ],
)
def test_what_is_not_known_is_named(tmp_path: Path, parts: dict[str, Any], found: str) -> None:
    folder = Folder(tmp_path, tokenizer__json=bpe(MERGES, **parts))
    with pytest.raises(UnsupportedModelError, match=rf"tokenizer\.json: .*{found}") as error:
        folder.values()
    assert "\n" not in str(error.value)


def test_added_tokens(tmp_path: Path) -> None:
    special = [
        added(265, "<|end|>"),
        added(266, "<tool>", special=False),
        added(267, "<|file|>", special=False),
        added(268, "\u2581\u2581", special=False),
        added(269, "ĠĠĠ", special=False),
        added(270, "ĠĠĠĠ", special=False, normalized=True),
    ]
    settings = {
        "added_tokens_decoder": {"266": added(266, "<tool>"), "271": added(271, "<new>")},
        "eos_token": "the",
        "pad_token": {"content": "<pad-1>"},
    }
    tokenizer = bpe([*MERGES, ["t", "he"]], special)
    del tokenizer["model"]["vocab"]["the"]
    tokenizer["model"] |= {"merges": MERGES}
    values = Folder(tmp_path, tokenizer__json=tokenizer, tokenizer_config__json=settings).values(275)
    assert list(zip(values["tokens"], values["token_type"], strict=True))[264:] == [
        ("Ã©", NORMAL),
        ("<|end|>", CONTROL),
        ("<tool>", CONTROL),
        ("<|file|>", CONTROL),
        ("  ", USER_DEFINED),
        ("   ", USER_DEFINED),
        ("ĠĠĠĠ", USER_DEFINED),
        ("<new>", CONTROL),
        ("the", CONTROL),
        ("<pad-1>", CONTROL),
        ("[PAD274]", UNUSED),
    ]


def test_merges_in_pairs_may_hold_spaces(tmp_path: Path) -> None:
    tokenizer = bpe([["Ġ", "t"], ["Ġt", "he"]])
    tokenizer["model"]["vocab"] |= {"he": 300, " ": 301, " t": 302}
    tokenizer["model"]["merges"].append([" ", "t"])
    values = Folder(tmp_path, tokenizer__json=tokenizer).values()
    assert values["merges"] == ["Ġ t", "Ġt he", "Ġ t"]
    assert values["tokens"][257:] == ["Ġthe", *(f"[PAD{i}]" for i in range(258, 300)), "he", " ", " t"]


def vocab(**ids: Any) -> dict[str, Any]:
    return {"vocab": bpe(MERGES)["model"]["vocab"] | ids}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"model": None}, "model is missing"),
        ({"model": []}, "model is a list instead of an object"),
        ({"added_tokens": {}}, "added_tokens is an object instead of a list"),
        ({"added_tokens": [5]}, r"added_tokens\[0\] is a whole number instead of an object"),
        ({"added_tokens": [added(9, "<x>")]}, r'added_tokens\[0\]\.id is 9, but the tokens before "<x>" make it 265'),
        ({"added_tokens": [added(300, "a")]}, r'added_tokens\[0\]\.id is 300, but the tokens before "a" make it 97'),
        ({"added_tokens": [added(-1, "<x>")]}, r"added_tokens\[0\]\.id is -1"),
        ({"added_tokens": [added(265, "<x>"), added(266, "<x>")]}, r"added_tokens\[1\]\.id is 266"),
        ({"added_tokens": [{"id": 265}]}, r"added_tokens\[0\]\.content is missing"),
        (
            {"added_tokens": [{"content": "<x>", "id": True}]},
            r"added_tokens\[0\]\.id is true or false instead of a whole",
        ),
        (
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTE_LEVEL, 3]}},
            r"pre_tokenizer\.pretokenizers\[1\] is",
        ),
    ],
)
def test_damaged_parts_are_named(tmp_path: Path, change: dict[str, Any], found: str) -> None:
    damaged(tmp_path, bpe(MERGES) | change, found)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"vocab": {}}, r"model\.vocab is empty"),
        ({"vocab": ["a"]}, r"model\.vocab is a list instead of an object"),
        (vocab(new=3), r'model\.vocab\["new"\] is 3, which another token is'),
        (vocab(new=-3), r'model\.vocab\["new"\] is -3, no id'),
        (vocab(new=[3]), r'model\.vocab\["new"\] is \[3\], no id'),
        (vocab(new="3"), r"model\.vocab\[\"new\"\] is '3', no id"),
        (vocab(new=10**12), r"tokenizer\.json: a vocabulary of 1000000000001 tokens is beyond reason"),
        ({"merges": []}, r"model\.merges is missing or empty"),
        ({"merges": ["a b c"]}, r"model\.merges\[0\] is not two texts"),
        ({"merges": [["h", "e"], ["h", 3]]}, r"model\.merges\[1\] is not two texts"),
        ({"merges": ["q q"]}, r'model\.merges\[0\] "q" "q" joins or makes what is not a token'),
        ({"byte_fallback": True}, r"model\.byte_fallback is true"),
    ],
)
def test_damaged_models_are_named(tmp_path: Path, options: dict[str, Any], found: str) -> None:
    tokenizer = bpe(MERGES)
    tokenizer["model"] |= options
    damaged(tmp_path, tokenizer, found)


def damaged(path: Path, tokenizer: Any, found: str) -> None:
    with pytest.raises(ModelFileError, match=found) as error:
        Folder(path, tokenizer__json=tokenizer).values()
    assert str(error.value).startswith(str(path / "tokenizer.json"))
    assert "\n" not in str(error.value)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"has no tokenizer\.json, tokenizer\.model or tekken\.json"):
        Folder(tmp_path).values()
    damaged(tmp_path, [], "holds a list instead of an object")
    damaged(tmp_path, json.dumps(bpe(MERGES)).replace('"Z"', r'"\ud83d"'), "no valid JSON")
    folder = Folder(tmp_path, tokenizer__json=bpe(MERGES))
    with pytest.raises(ModelFileError, match=r"has a token 264, but 200 tokens are wanted"):
        folder.values(200)
    folder.write("tokenizer_config.json", {"added_tokens_decoder": {"x": {}}})
    with pytest.raises(ModelFileError, match=r"tokenizer_config\.json: added_tokens_decoder\.x is no token's id"):
        folder.values()


def test_tale_has_the_ids_of_its_tokenizer(shared: Path, tmp_path: Path) -> None:
    tale = shared / "models" / "tale-13m"
    names = ("tokenizer.json", "tokenizer_config.json")
    folder = Folder(tmp_path, json.loads((tale / "config.json").read_text()))
    for name in names:
        folder.write(name, (tale / name).read_bytes())
    assert folder.values()["pre"] == "gpt-2"
    ids_agree(folder, ["|".join(TEXTS), (tale / "held-out.txt").read_text()[:20000]])


@pytest.mark.parametrize("name", ["qwen2", "llama-bpe"])
def test_published_vocabularies_come_back(shared: Path, tmp_path: Path, name: str) -> None:
    """What GGUF files say of a model, written as tokenizer.json and converted again."""
    path = shared / "vocab" / f"{name}.gguf"
    with GGUFFile.open(path) as file:
        texts = [text.decode() for text in file.get_strings("tokenizer.ggml.tokens").raws()]
        types = file.get_array("tokenizer.ggml.token_type", int, None).tolist()  # type: ignore[union-attr]
        merges = [merge.decode() for merge in file.get_strings("tokenizer.ggml.merges").raws()]
    special = [added(i, texts[i], special=kind == CONTROL) for i, kind in enumerate(types) if kind in (3, 4)]
    tokenizer = bpe(merges[:1], special, **PUBLISHED[name])
    tokenizer["model"] |= {"merges": merges, "vocab": {text: i for i, text in enumerate(texts) if types[i] == NORMAL}}
    folder = Folder(tmp_path, tokenizer__json=tokenizer)
    values = folder.values(len(texts))
    assert values["pre"] == name
    # The file is older than the rule that what looks like a control token is one.
    types = [CONTROL if kind == USER_DEFINED and texts[i].startswith("<|") else kind for i, kind in enumerate(types)]
    assert (values["tokens"], values["token_type"], values["merges"]) == (texts, types, merges)
    inputs = path.with_suffix(".gguf.inp").read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    wanted = [[int(i) for i in line.split()] for line in path.with_suffix(".gguf.out").read_text().splitlines()]
    ours = Tokenizer.open(folder.gguf(len(texts)))
    assert [ours.encode(text) for text in inputs[:-1]] == wanted
