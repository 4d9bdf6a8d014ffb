"""Which GGUF file of a repository a reference selects."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgellm.errors import EdgeLLMError
from edgellm.hub import Reference, RemoteFile, Repository, gguf_choices, parse_reference, select_gguf
from edgellm.hub.listing import is_safe
from edgellm.hub.reference import is_repository
from edgellm.models.pull_records import is_safe_path
from edgellm.models.quant import quant_in_name

QWEN = {"q2_k": 3, "q4_0": 4, "q4_k_m": 5, "q5_k_m": 6, "q8_0": 8, "fp16": 16}


def repository(sizes: dict[str, int]) -> Repository:
    files = [RemoteFile(name, nbytes, "sha256:" + "0" * 64) for name, nbytes in sizes.items()]
    return Repository("org/name", "0" * 40, tuple(files))


def qwen() -> Repository:
    return repository({f"qwen2.5-1.5b-instruct-{quant}.gguf": n for quant, n in QWEN.items()} | {"README.md": 1})


def chosen(found: Repository, wanted: str = "", memory: int = 1000) -> list[str]:
    model = select_gguf(found.name, gguf_choices(found), wanted, lambda nbytes: nbytes <= memory)
    return [file.name for file in model.files]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Qwen/Qwen3-0.6B-GGUF", Reference("Qwen/Qwen3-0.6B-GGUF")),
        ("Qwen/Qwen3-0.6B-GGUF:q8_0", Reference("Qwen/Qwen3-0.6B-GGUF", "q8_0")),
        ("hf.co/a/b:Q4_K_M", Reference("a/b", "Q4_K_M")),
        ("https://huggingface.co/a/b/", Reference("a/b")),
        ("a/b:x.gguf", Reference("a/b", "x.gguf")),
    ],
)
def test_references(text: str, wanted: Reference) -> None:
    assert parse_reference(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "a/", "/b", "a/b/c", "a/b:", "../b", "a/..", ".a/b", "a/b.", "a b/c", "a\\b/c", "a/b\n", "ä/b"),
        *("-a/b", "a/-b", "_a/b"),
    ],
)
def test_invalid_references(text: str) -> None:
    assert parse_reference(text) is None


@given(st.text(max_size=12) | st.text(alphabet="aZ0é ._-+=@,/~$()`'\"*?[]{}<>|&;!#%^\\\n", max_size=12))
def test_names_of_pulled_files_are_one_word_in_any_shell(name: str) -> None:
    """By two rules of others: what `shlex` need not quote, and what bash prints without quotes."""
    if is_safe(name):
        assert all(part[0].isalnum() for part in name.split("/"))
        ascii_name = "".join(c if c.isascii() else "x" for c in name)
        assert shlex.quote(ascii_name) == ascii_name
    if is_repository(name):
        assert shlex.quote(name) == name
        assert all(part[0].isalnum() for part in name.split("/"))


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("Qwen3-0.6B-Q8_0.gguf", True),
        ("UD-Q4_K_XL/m-00001-of-00002.gguf", True),
        ("模型+v1.5=x@2,3.gguf", True),
        *((name, False) for name in ("-rf.gguf", "_m.gguf", ".m.gguf", "~m.gguf", "a/-m.gguf", "a/../m.gguf", "a//b")),
        *((f"z{c}z.gguf", False) for c in " $`'\"*?[]{}<>|&;!#%^()\\\n\t~:\x1b\u202e\u200d"),
    ],
)
def test_safe_and_unsafe_names(name: str, safe: bool) -> None:
    assert is_safe(name) is safe


@given(st.text(alphabet="ab./\\:_-~\0 ", max_size=12))
def test_repositories_and_files_stay_in_their_folder(name: str) -> None:
    for accepted in (is_repository(name), is_safe_path(name)):
        if accepted:
            assert all(part and not part.startswith(".") for part in name.split("/"))
            assert not set(name) & set("\\:\0")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Qwen3-0.6B-Q8_0", "Q8_0"),
        ("qwen2.5-1.5b-instruct-q4_k_m", "Q4_K_M"),
        ("Qwen-7B.IQ4_XS", "IQ4_XS"),
        ("UD-Q4_K_XL/Qwen3-235B", "UD-Q4_K_XL"),
        ("gpt-oss-20b-mxfp4", "MXFP4"),
        ("Qwen3-30B-A3B-NVFP4", "NVFP4"),
        ("Q4_K_M/model-F16", "F16"),
        ("Llama-3.2-1B-Instruct-f16", "F16"),
        ("Qwen3-8B", ""),
        ("MyQ4_Kx", ""),
    ],
)
def test_the_quantization_in_a_name(name: str, wanted: str) -> None:
    assert quant_in_name(name) == wanted


def test_q4_k_m_is_the_default() -> None:
    assert chosen(qwen()) == ["qwen2.5-1.5b-instruct-q4_k_m.gguf"]
    for wanted in ("Q8_0", "q8_0", "qwen2.5-1.5b-instruct-q8_0.gguf", "INSTRUCT-Q8_0", "q8"):
        assert chosen(qwen(), wanted) == ["qwen2.5-1.5b-instruct-q8_0.gguf"]


def test_without_q4_k_m_the_largest_that_fits() -> None:
    sizes = {"m-Q2_K.gguf": 2, "m-Q5_K_M.gguf": 5, "m-Q8_0.gguf": 8, "m-F16.gguf": 16, "m-IQ2_K.gguf": 1}
    wanted = {7: "m-Q5_K_M.gguf", 8: "m-Q8_0.gguf", 99: "m-Q8_0.gguf", 0: "m-Q2_K.gguf"}
    assert {memory: chosen(repository(sizes), memory=memory)[0] for memory in wanted} == wanted
    assert chosen(repository({"m-F16.gguf": 16, "m-IQ2_K.gguf": 1})) == ["m-F16.gguf"]
    assert chosen(repository({"m-F32.gguf": 32})) == ["m-F32.gguf"]


@pytest.mark.parametrize(
    "quant",
    [
        *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_XS", "IQ3_S", "IQ3_M", "IQ4_XS"),
        *("IQ4_NL", "Q1_0", "Q2_0", "TQ1_0", "TQ2_0", "MXFP4", "MXFP4_MOE", "NVFP4", "Q2_K_S", "Q3_K_L", "UD-Q2_K_XL"),
    ],
)
def test_all_types_of_llama_cpp_are_chosen_by_default(quant: str) -> None:
    assert chosen(repository({f"m-{quant}.gguf": 2, "m-F16.gguf": 16, "m-IQ2_KS.gguf": 1})) == [f"m-{quant}.gguf"]


@pytest.mark.parametrize(
    ("name", "nearest"), [("m-IQ4_KS", "IQ4_XS"), ("Q3/m-smol-iq2_ks", "IQ2_XXS"), ("m-Q4_K_R4", "Q4_K_M")]
)
def test_types_of_ik_llama_cpp_are_refused(name: str, nearest: str) -> None:
    quant = quant_in_name(name)
    words = f"^org/name:{quant} has weights that only ik_llama.cpp computes; take a file of .* in {nearest}: "
    others = {"m-F16.gguf": 16, "m-IQ5_K.gguf": 5, "m-Q8_0.gguf": 8}
    for sizes, wanted, rest in (({}, "", "choose another repository"), (others, quant, "it has Q8_0 .*, F16 .*")):
        with pytest.raises(EdgeLLMError, match=f"{words}{rest}$"):
            chosen(repository({f"{name}.gguf": 1} | sizes), wanted)


def test_an_exact_quantization_comes_before_a_part_of_one() -> None:
    found = repository({"m-UD-Q4_K_XL.gguf": 4, "m-UD-Q4_K_M.gguf": 4, "m-Q4_K_M.gguf": 5})
    assert chosen(found, "q4_k_m") == ["m-Q4_K_M.gguf"]
    assert chosen(found, "Q4_K_XL") == ["m-UD-Q4_K_XL.gguf"]


def test_several_matches_or_none_are_an_error_that_lists_the_models() -> None:
    two = repository({"small-Q4_K_M.gguf": 2_000_000, "large-Q4_K_M.gguf": 3_000_000})
    with pytest.raises(EdgeLLMError, match=r"^org/name may be any of small-Q4_K_M \(2 MB\), large-Q4_K_M \(3 MB\); "):
        chosen(two)
    with pytest.raises(EdgeLLMError, match=r"^org/name:q5_k may be any of Q5_K_S \(5 bytes\), Q5_K_M \(6 bytes\); "):
        chosen(repository({"m-Q5_K_M.gguf": 6, "m-Q5_K_S.gguf": 5}), "q5_k")
    with pytest.raises(EdgeLLMError, match=r"^org/name has no model Q3_K; it has Q2_K .*, FP16 \(16 bytes\)$"):
        chosen(qwen(), "Q3_K")


def test_a_split_model_is_one_choice_and_needs_all_parts() -> None:
    parts = {f"Q8_0/m-Q8_0-0000{n}-of-00003.gguf": n for n in (3, 1, 2)}
    assert chosen(repository(parts | {"m-Q2_K.gguf": 1}), "Q8_0") == sorted(parts)
    del parts["Q8_0/m-Q8_0-00002-of-00003.gguf"]
    lacks = "org/name lacks Q8_0/m-Q8_0-00002-of-00003.gguf, of the 3 parts of Q8_0/m-Q8_0; "
    with pytest.raises(EdgeLLMError, match=lacks + "it has Q2_K"):
        chosen(repository(parts | {"m-Q2_K.gguf": 1}), "Q8_0")
    assert chosen(repository(parts | {"m-Q2_K.gguf": 1})) == ["m-Q2_K.gguf"]
    with pytest.raises(EdgeLLMError, match=lacks + "choose another repository"):
        chosen(repository(parts))
    with pytest.raises(EdgeLLMError, match=r"lacks m-00002-of-99999.gguf, .*-00013-of-99999.gguf and 99986 more"):
        chosen(repository({"m-00001-of-99999.gguf": 1}))
    parts = {f"b-Q8_0-0000{n}-of-00002.GGUF": 1 for n in (1, 2)}
    assert chosen(repository(parts | {"a-Q2_K.gguf": 1}), "b") == list(parts)
    parts.popitem()
    assert chosen(repository(parts | {"a-Q8_0.gguf": 1}), "Q8_0") == ["a-Q8_0.gguf"]


def test_a_part_that_is_listed_twice_replaces_no_missing_part() -> None:
    files = [RemoteFile("m-00001-of-00002.gguf", n, "sha256:" + "0" * 64) for n in (1, 2)]
    with pytest.raises(EdgeLLMError, match=r"lacks m-00002-of-00002\.gguf"):
        chosen(Repository("org/name", "0" * 40, tuple(files)))


def test_a_model_that_is_split_and_in_one_file_is_one_choice() -> None:
    parts = {f"m-q4_k_m-0000{n}-of-00002.gguf": 2 for n in (1, 2)}
    assert chosen(repository(parts | {"m-q4_k_m.gguf": 4})) == ["m-q4_k_m.gguf"]


def test_other_gguf_files_are_no_choices() -> None:
    assert chosen(repository({"mmproj-F16.gguf": 1, "x-Q4_K_M.gguf": 2, "imatrix.gguf": 3})) == ["x-Q4_K_M.gguf"]
