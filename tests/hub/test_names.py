"""Names of models: a typed name resolves to its file, from any folder, or to an error with advice."""

import os
import sys
from pathlib import Path

import pytest

from edgellm import builtin
from edgellm.models import canonical_name, display_name, resolve
from support.local_models import Machine, machine, model, names, refusal
from support.split_files import write_parts

__all__ = ["machine"]


def test_names_of_ollama(machine: Machine) -> None:
    machine.ollama_model("registry.ollama.ai/someone/tuned/v1", "a", model(1))
    machine.ollama_model("hf.co/org/repo/Q4_K_M", "b", model(2))
    machine.manifest("registry.ollama.ai/library/cloud/latest", "sha256:" + "c" * 64, kind="application/other")
    assert names() == ["hf.co/org/repo:Q4_K_M", "someone/tuned:v1"]


def test_an_ambiguous_name_is_made_longer(machine: Machine) -> None:
    here = machine.write("models/m.gguf", model(1))
    below = machine.write("models/sub/M.gguf", model(2))
    hub = machine.hugging_face("org/repo", "abc", "m.gguf", model(3))
    assert names() == [str(Path("models/m.gguf")), "sub/M", "org/repo/m"]
    assert [resolve(name).absolute() for name in names()] == [here, below, hub]
    assert resolve("m.gguf") == Path("m.gguf")  # a path, and missing: the reader says so
    assert "any of models/m.gguf, org/repo/m:" in refusal("m").replace("\\", "/")
    assert resolve("M").absolute() == below


def test_a_name_may_be_short_and_in_either_case(machine: Machine) -> None:
    long = machine.write("models/Qwen3-1.7B-Q4_K_M.gguf", model(1))
    short = machine.write("models/Qwen3-1.7B.gguf", model(2))
    machine.write("models/Llama.gguf", model(3))
    assert resolve("qwen3-1.7b-q4").absolute() == long
    assert resolve("qwen3-1.7b").absolute() == short  # a whole name goes before the beginning of a longer one
    assert "any of Qwen3-1.7B-Q4_K_M, Qwen3-1.7B:" in refusal("qw")


def test_an_exact_name_has_priority_over_another_case(machine: Machine) -> None:
    upper, lower = (machine.write(f"models/{n}/x{n}.gguf", model(i)) for i, n in ((1, "AB"), (2, "C")))
    lower_case = machine.write("models/xab.gguf", model(3))
    assert resolve("xAB").absolute() == upper
    assert resolve("xab").absolute() == lower_case
    assert resolve("XC").absolute() == lower


def test_the_most_similar_names_are_suggested(machine: Machine) -> None:
    for i, name in enumerate(("smollm2-135m", "qwen3-1.7b", "llama-3.2-1b")):
        machine.write(f"models/{name}.gguf", model(i + 1))
    message = refusal("qwen2-1.7b")
    assert "nearest is qwen3-1.7b;" in message
    assert "`edgellm list`" in message
    assert "nearest is smollm2-135m;" in refusal("135m")
    assert "nearest are " in refusal("3")
    assert "nearest" not in refusal("zzzzzz")
    assert "\x1b" not in refusal("\x1b[2J")


def test_an_empty_name_is_an_error(machine: Machine) -> None:
    assert refusal("") == "the name of the model is empty; give a path, or a name that `edgellm list` shows"


def test_a_path_has_priority_over_a_name(machine: Machine) -> None:
    machine.write("models/m.gguf", model(1))
    path = machine.write("m", model(2))
    assert resolve("m").absolute() == path
    for missing in ("none.gguf", "./none", "../none", str(machine.here / "none"), "~/none"):
        assert resolve(missing) == Path(missing)
    (machine.here / "loop").symlink_to("loop")
    assert resolve("loop") == Path("loop")


def test_a_folder_does_not_hide_a_model_of_its_name(machine: Machine) -> None:
    path = machine.write("models/Qwen3-0.6B.gguf", model(1))
    machine.write("Qwen3-0.6B/config.json", b"{}")
    machine.write("org/repo/config.json", b"{}")
    pulled = machine.write(machine.own / "models/org/repo/m-Q8_0.gguf", model(2))
    assert resolve("Qwen3-0.6B").absolute() == path
    assert resolve("org/repo") == pulled
    (machine.here / "other").mkdir()
    assert resolve("other") == Path("other")  # the reader of files says what it is
    assert resolve("./Qwen3-0.6B") == Path("./Qwen3-0.6B")


def test_the_canonical_name_is_the_path(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [machine.write(f"{folder}/m.gguf", model(i + 1)) for i, folder in enumerate(("models", "models/b", "c"))]
    assert [canonical_name(path) for path in paths] == [os.path.realpath(path) for path in paths]
    (machine.here / "link").symlink_to("models", target_is_directory=True)
    found = canonical_name(Path("link/../link/m.gguf"))
    assert found == os.path.realpath(paths[0])
    monkeypatch.chdir(machine.home)
    assert resolve(found).samefile(paths[0])
    assert canonical_name(builtin.PATH) == "builtin"
    assert resolve("builtin") == builtin.PATH


def test_all_parts_of_a_model_are_that_model(machine: Machine) -> None:
    (machine.here / "models").mkdir()
    parts = write_parts(machine.here / "models")
    assert {canonical_name(path) for path in parts} == {os.path.realpath(parts[0])}
    assert {display_name(path) for path in parts} == {"m"}
    assert {resolve(path.stem) for path in parts} == {Path("models", parts[0].name)}
    link = machine.hugging_face("org/repo", "abc", "hub-00001-of-00002.gguf", model(3))
    assert canonical_name(link) == str(Path(os.path.realpath(link.parent), link.name))  # a blob has no name
    assert display_name(Path("elsewhere.gguf")) == "elsewhere.gguf"


def test_names_with_control_characters_are_refused_safely(machine: Machine) -> None:
    if sys.platform == "win32":
        pytest.skip("such names cannot be written here")
    for i, end in enumerate(("a", "b")):
        machine.write(f"models/x\x1b[2J{end}.gguf", model(i + 1))
    assert "\x1b" not in refusal("x")
