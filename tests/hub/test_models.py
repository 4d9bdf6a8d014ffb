"""Models on this machine: each is found once, under a name that resolves to it; hostile files and folders are safe."""

import os
from pathlib import Path

import gguf
import pytest

from edgellm.gguf.filetypes import FILE_TYPES
from edgellm.models import LocalModel, find_models, resolve
from support import gguf_bytes as raw
from support.local_models import Machine, machine, model, names, refusal
from support.split_files import write_parts

__all__ = ["machine"]


def test_a_machine_without_models(machine: Machine) -> None:
    assert find_models() == []
    assert "`edgellm pull` gets more" in refusal("qwen3")


def test_all_stores_in_order(machine: Machine) -> None:
    paths = [
        machine.write("models/here.gguf", model(1)),
        machine.write(machine.own / "models/own.gguf", model(2)),
        machine.hugging_face("org/repo-GGUF", "abc", "hub.gguf", model(3)),
        machine.ollama_model("registry.ollama.ai/library/llama3.2/1b", "a", model(4)),
        machine.ollama_model("registry.ollama.ai/library/smol/latest", "b", model(5), machine.home.parent / "service"),
        machine.write(machine.home / ".lmstudio/models/someone/repo/studio.gguf", model(6)),
        machine.write(machine.home / ".cache/lm-studio/models/someone/repo/older.gguf", model(7)),
    ]
    found = find_models()
    assert [f.name for f in found] == ["here", "own", "hub", "llama3.2:1b", "smol:latest", "studio", "older"]
    sources = ["./models", "edgellm", "Hugging Face", "ollama", "ollama", "LM Studio", "LM Studio"]
    assert [f.source for f in found] == sources
    assert [f.path for f in found] == list(map(str, paths))
    assert [resolve(f.name).absolute() for f in found] == paths


def test_the_facts_about_a_file(machine: Machine) -> None:
    path = machine.write("models/a.gguf", model(8, file_type=15))
    wanted = LocalModel("a", "./models", str(path), path.stat().st_size, "Q4_K_M", "llama", 2048, kind="model")
    assert find_models() == [wanted]


def test_a_file_type_that_is_no_number_is_ignored(machine: Machine) -> None:
    whole = model(8)
    machine.write(
        "models/a.gguf", raw.RawGGUF((*whole.pairs, raw.string_pair("general.file_type", "15")), whole.tensors)
    )
    assert [(found.quantization, found.problem) for found in find_models()] == [("F32", None)]


@pytest.mark.parametrize("file_type", [None, 999])
def test_quantization_by_the_most_bytes(machine: Machine, file_type: int | None) -> None:
    small, large = raw.f32_tensor("t", (8,), 0, [0.5] * 8), raw.RawTensor("u", (64,), 8, 32, bytes(68))
    machine.write("models/a.gguf", raw.RawGGUF(model(8, file_type, None).pairs, (small, large)))
    (found,) = find_models()
    assert (found.quantization, found.context_length) == ("Q8_0", None)


def test_no_quantization_without_tensors(machine: Machine) -> None:
    machine.write("models/vocabulary.gguf", raw.RawGGUF())
    assert find_models()[0].quantization is None


def test_file_types_are_those_of_the_gguf_package() -> None:
    theirs = {t.value: t.name.removeprefix("MOSTLY_").removeprefix("ALL_") for t in gguf.LlamaFileType}
    del theirs[gguf.LlamaFileType.GUESSED.value]
    assert {number: name for number, name in FILE_TYPES.items() if number in theirs} == theirs


def test_one_file_under_several_names(machine: Machine) -> None:
    blob = machine.ollama_model("registry.ollama.ai/library/qwen3/8b", "a", model(1))
    machine.ollama_model("registry.ollama.ai/library/qwen3/latest", "a", model(1))
    (machine.here / "models").mkdir()
    (machine.here / "models/mine.gguf").symlink_to(blob)
    assert names() == ["mine"]
    for name in ("mine", "qwen3:8b", "qwen3:latest", "qwen3"):
        assert resolve(name).samefile(blob)


def test_split_models_are_listed_once(machine: Machine) -> None:
    for folder in ("whole", "lacking"):
        (machine.here / "models" / folder).mkdir(parents=True)
    whole = write_parts(machine.here / "models/whole")
    write_parts(machine.here / "models/lacking")[1].unlink()
    machine.write("models/whole/m.gguf", model(9))
    lacking, parts, alone = find_models()
    assert parts.bytes == sum(path.stat().st_size for path in whole)
    assert [Path(label).name for label in names()] == ["m", "m-00001-of-00003.gguf", "m.gguf"]
    assert (parts.problem, alone.problem) == (None, None)
    assert lacking.problem
    assert "m-00002-of-00003.gguf" in lacking.problem


def test_the_problem_of_a_file(machine: Machine) -> None:
    whole = model(64).build()
    bad = {"cut": whole[:-9], "empty": b"", "page": b"<!doctype html>", "nameless": raw.RawGGUF(pairs=()).build()}
    for name, content in bad.items():
        machine.write(f"models/{name}.gguf", content)
    (machine.here / "models/dangling.gguf").symlink_to("nowhere")
    machine.write("models/good.gguf")
    found = {model.name: model for model in find_models()}
    words = {"cut": "cut off", "empty": "is empty", "page": "a web page", "nameless": "general.architecture"}
    for name, word in (words | {"dangling": "no such file"}).items():
        problem = found[name].problem
        assert problem
        assert word in problem
        assert not problem.startswith("/")
    assert (found["cut"].bytes, found["dangling"].bytes) == (len(whole) - 9, None)
    assert found["good"].problem is None


def test_cycles_of_links(machine: Machine) -> None:
    path = machine.write("models/sub/m.gguf", model(1))
    (machine.here / "models/sub/up").symlink_to("..", target_is_directory=True)
    (machine.here / "models/sub/self.gguf").symlink_to("self.gguf")
    (machine.here / "models/again").symlink_to("sub", target_is_directory=True)
    found = {model.path: model for model in find_models()}
    healthy = [f for f in found.values() if not f.problem]
    assert [f.bytes for f in healthy] == [path.stat().st_size]
    assert len(found) == 2


def test_a_folder_through_a_link(machine: Machine) -> None:
    elsewhere = machine.write(machine.home / "collection/m.gguf", model(1))
    (machine.here / "models").symlink_to(elsewhere.parent, target_is_directory=True)
    assert resolve("m").samefile(elsewhere)


def test_scans_of_deep_and_large_trees_end(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write("models/" + "d/" * 60 + "deep.gguf", model(1))
    machine.write("models/top.gguf", model(2))
    assert names() == ["top"]
    monkeypatch.setattr("edgellm.models.scan._MAX_ENTRIES", 10)
    for i in range(30):
        machine.write(f"models/{i:02}.gguf", model(i + 3))
    assert len(names()) == 10


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_folders_that_may_not_be_read(machine: Machine) -> None:
    machine.write("models/secret/a.gguf")
    machine.write("models/b.gguf", model(2))
    (machine.here / "models/secret").chmod(0)
    try:
        assert names() == ["b"]
    finally:
        (machine.here / "models/secret").chmod(0o700)


def test_folders_that_fail(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """For root too: scanning a folder raises."""
    machine.write("models/secret/a.gguf")
    machine.write("models/b.gguf", model(2))
    machine.hugging_face("org/repo", "abc", "c.gguf", model(3))
    scan = os.scandir

    def refuse(folder: "os.PathLike[str] | str") -> object:
        if "secret" in str(folder) or "hub" in str(folder):
            raise PermissionError(13, "Permission denied", str(folder))
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    assert names() == ["b"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_special_files_do_not_block(machine: Machine) -> None:
    (machine.here / "models").mkdir()
    os.mkfifo(machine.here / "models/pipe.gguf")
    folder = machine.ollama / "manifests/registry.ollama.ai/library/pipe"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "latest")
    assert all("not a regular file" in (found.problem or "") for found in find_models())
    assert len(names()) == 2


def test_without_a_home(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write("models/m.gguf")
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("USERPROFILE")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert names() == ["m"]
