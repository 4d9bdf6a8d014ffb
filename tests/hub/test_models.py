"""Models on this machine: all are found, once, under names that lead back to them, and nothing there does harm."""

import json
import os
import subprocess
import sys
from pathlib import Path

import gguf
import pytest

from edgellm import builtin, home
from edgellm.errors import ModelFileError
from edgellm.gguf.filetypes import FILE_TYPES
from edgellm.models import Found, find_models, identity_of, name_of, resolve
from edgellm.models.stores import hugging_face_cache
from support import gguf_bytes as raw
from support.local_models import Machine, machine, model
from support.split_files import write_parts

__all__ = ["machine"]


def names() -> list[str]:
    return [found.name for found in find_models()]


def refusal(name: str) -> str:
    with pytest.raises(ModelFileError) as caught:
        resolve(name)
    message = str(caught.value)
    assert "\n" not in message
    return message


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


def test_what_is_said_of_a_file(machine: Machine) -> None:
    path = machine.write("models/a.gguf", model(8, file_type=15))
    wanted = Found("a", "./models", str(path), path.stat().st_size, "Q4_K_M", "llama", 2048)
    assert find_models() == [wanted]


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


def test_environment_says_where_stores_are(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    other = machine.home.parent / "elsewhere"
    machine.hub, machine.ollama = other / "hub", other / "ollama"
    machine.hugging_face("org/repo", "abc", "hub.gguf", model(1))
    machine.ollama_model("registry.ollama.ai/library/m/t", "a", model(2))
    assert names() == []
    monkeypatch.setenv("OLLAMA_MODELS", str(machine.ollama))
    monkeypatch.setenv("HF_HOME", str(other))
    assert names() == ["hub", "m:t"]
    monkeypatch.setenv("HF_HUB_CACHE", str(machine.home))  # goes before HF_HOME
    assert names() == ["m:t"]
    monkeypatch.setenv("HF_HUB_CACHE", str(machine.hub))
    assert names() == ["hub", "m:t"]


ENVIRONMENTS: list[dict[str, str]] = [
    {},
    {"HF_HOME": "~/hf"},
    {"HF_HOME": "$BASE/hf"},
    {"HF_HOME": "${BASE}/hf"},
    {"XDG_CACHE_HOME": "~/xdg"},
    {"HUGGINGFACE_HUB_CACHE": "~/old/hub"},
    {"HF_HUB_CACHE": "$BASE/hub", "HUGGINGFACE_HUB_CACHE": "~/old/hub", "HF_HOME": "/home"},
    {"HUGGINGFACE_HUB_CACHE": "/old/$BASE", "HF_HOME": "/home"},
]


def test_the_cache_of_hugging_face_is_where_its_library_has_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import importlib, json, os, sys; from huggingface_hub import constants\n"
        "for more in json.load(sys.stdin):\n"
        "    os.environ.update(more); print(importlib.reload(constants).HF_HUB_CACHE)\n"
        "    for name in more: del os.environ[name]"
    )
    monkeypatch.setenv("BASE", "/base")
    given = json.dumps(ENVIRONMENTS)
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, text=True, check=True)
    found: list[Path] = []
    for environment in ENVIRONMENTS:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            found.append(hugging_face_cache())
    assert found == list(map(Path, done.stdout.splitlines()))


def test_folders_of_our_own_may_have_variables(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASE", str(machine.home))
    for value in ("~/own", "$BASE/own"):
        monkeypatch.setenv("EDGELLM_HOME", value)
        monkeypatch.delenv("EDGELLM_CACHE", raising=False)
        folders = (home.models_folder(), home.chats_file().parent, home.cache_folder(), home.speeds_file().parent)
        assert folders == tuple(machine.home / "own" / name for name in ("models", "", "cache", "cache"))
        monkeypatch.setenv("EDGELLM_CACHE", value)
        assert home.cache_folder() == machine.home / "own"


def test_lm_studio_is_where_its_pointer_says(machine: Machine) -> None:
    path = machine.write(machine.home / "elsewhere/models/someone/repo/studio.gguf", model(1))
    usual = machine.write(machine.home / ".lmstudio/models/someone/repo/usual.gguf", model(2))
    pointer = machine.home / ".lmstudio-home-pointer"
    for content in (b"", b"\xff", b"elsewhere", str(machine.home / "gone").encode(), b"/a" * 9000, b"/\0"):
        pointer.write_bytes(content)
        assert [found.path for found in find_models()] == [str(usual)]
    pointer.write_text(f"{machine.home / 'elsewhere'}\n")
    assert [(found.path, found.source) for found in find_models()] == [(str(p), "LM Studio") for p in (path, usual)]
    pointer.write_text(f"{machine.home / '.lmstudio'}")
    assert names() == ["usual"]
    pointer.unlink()
    if hasattr(os, "mkfifo"):
        os.mkfifo(pointer)
        assert names() == ["usual"]


def test_hugging_face_revisions(machine: Machine) -> None:
    newest = machine.hugging_face("org/repo", "bbb", "m.gguf", model(1))
    machine.hugging_face("org/repo", "aaa", "m.gguf", model(2), main=False)
    only_there = machine.hugging_face("org/repo", "aaa", "sub/other.gguf", model(3), main=False)
    machine.write(machine.hub / "datasets--org--set/snapshots/x/set.gguf", model(4))
    machine.write(machine.hub / "models--org--repo/blobs/half.gguf.incomplete", b"GGUF")
    assert [found.path for found in find_models()] == [str(newest), str(only_there)]
    assert resolve("org/repo/sub/other") == only_there


def test_one_file_under_several_names(machine: Machine) -> None:
    blob = machine.ollama_model("registry.ollama.ai/library/qwen3/8b", "a", model(1))
    machine.ollama_model("registry.ollama.ai/library/qwen3/latest", "a", model(1))
    (machine.here / "models").mkdir()
    (machine.here / "models/mine.gguf").symlink_to(blob)
    assert names() == ["mine"]
    for name in ("mine", "qwen3:8b", "qwen3:latest", "qwen3"):
        assert resolve(name).samefile(blob)


def test_names_of_ollama(machine: Machine) -> None:
    machine.ollama_model("registry.ollama.ai/someone/tuned/v1", "a", model(1))
    machine.ollama_model("hf.co/org/repo/Q4_K_M", "b", model(2))
    machine.manifest("registry.ollama.ai/library/cloud/latest", "sha256:" + "c" * 64, kind="application/other")
    assert names() == ["hf.co/org/repo:Q4_K_M", "someone/tuned:v1"]


def test_a_name_that_two_have_is_made_longer(machine: Machine) -> None:
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


def test_an_exact_name_goes_before_another_case(machine: Machine) -> None:
    upper, lower = (machine.write(f"models/{n}/x{n}.gguf", model(i)) for i, n in ((1, "AB"), (2, "C")))
    lower_case = machine.write("models/xab.gguf", model(3))
    assert resolve("xAB").absolute() == upper
    assert resolve("xab").absolute() == lower_case
    assert resolve("XC").absolute() == lower


def test_the_nearest_names_are_told(machine: Machine) -> None:
    for i, name in enumerate(("smollm2-135m", "qwen3-1.7b", "llama-3.2-1b")):
        machine.write(f"models/{name}.gguf", model(i + 1))
    message = refusal("qwen2-1.7b")
    assert "nearest is qwen3-1.7b;" in message
    assert "`edgellm list`" in message
    assert "nearest is smollm2-135m;" in refusal("135m")
    assert "nearest are " in refusal("3")
    assert "nearest" not in refusal("zzzzzz")
    assert "\x1b" not in refusal("\x1b[2J")


def test_a_path_goes_before_a_name(machine: Machine) -> None:
    machine.write("models/m.gguf", model(1))
    path = machine.write("m", model(2))
    assert resolve("m").absolute() == path
    for missing in ("", "none.gguf", "./none", "../none", str(machine.here / "none"), "~/none"):
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


def test_a_model_is_remembered_by_its_path(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [machine.write(f"{folder}/m.gguf", model(i + 1)) for i, folder in enumerate(("models", "models/b", "c"))]
    assert [identity_of(path) for path in paths] == [os.path.realpath(path) for path in paths]
    (machine.here / "link").symlink_to("models", target_is_directory=True)
    found = identity_of(Path("link/../link/m.gguf"))
    assert found == os.path.realpath(paths[0])
    monkeypatch.chdir(machine.home)
    assert resolve(found).samefile(paths[0])
    assert identity_of(builtin.PATH) == "builtin"
    assert resolve("builtin") == builtin.PATH


def test_all_parts_of_a_model_are_that_model(machine: Machine) -> None:
    (machine.here / "models").mkdir()
    parts = write_parts(machine.here / "models")
    assert {identity_of(path) for path in parts} == {os.path.realpath(parts[0])}
    assert {name_of(path) for path in parts} == {"m"}
    link = machine.hugging_face("org/repo", "abc", "hub-00001-of-00002.gguf", model(3))
    assert identity_of(link) == str(Path(os.path.realpath(link.parent), link.name))  # a blob has no name
    assert name_of(Path("elsewhere.gguf")) == "elsewhere.gguf"


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


def test_what_is_wrong_with_a_file_is_said(machine: Machine) -> None:
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


@pytest.mark.parametrize(
    "digest",
    ["sha256:../../../../secret", "sha256:" + "a" * 63, "sha256:" + "A" * 64, "md5:" + "a" * 64, "", "a" * 64 + "\n"],
)
def test_manifests_cannot_point_out_of_the_store(machine: Machine, digest: str) -> None:
    machine.write(machine.home / "secret", model(1))
    machine.write(machine.ollama / "secret", model(1))
    manifest = machine.manifest("registry.ollama.ai/library/evil/latest", digest)
    (found,) = find_models()
    assert found.path == str(manifest)
    assert found.problem


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"layers": {}}',
        b'{"layers": ' + b"[" * 100_000,
        b'{"layers": []}' + b" " * (1 << 20),
        b'{"n": ' + b"9" * 5000 + b"}",
    ],
)
def test_hostile_manifests_are_only_bad_models(machine: Machine, content: bytes) -> None:
    machine.write(machine.ollama / "manifests/registry.ollama.ai/library/evil/latest", content)
    machine.ollama_model("registry.ollama.ai/library/good/latest", "a", model(1))
    evil, good = find_models()
    assert (evil.name, good.name, good.problem) == ("evil:latest", "good:latest", None)
    assert evil.problem


@pytest.mark.parametrize("layers", [b"[]", b"[1, null]", b'[{"mediaType": 3}]'])
def test_manifests_without_a_model_are_none(machine: Machine, layers: bytes) -> None:
    machine.write(machine.ollama / "manifests/registry.ollama.ai/library/cloud/latest", b'{"layers": ' + layers + b"}")
    (machine.ollama / "manifests/registry.ollama.ai/library/cloud/folder").mkdir()
    assert find_models() == []


def test_loops_of_links(machine: Machine) -> None:
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


def test_deep_and_large_trees_come_to_an_end(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write("models/" + "d/" * 60 + "deep.gguf", model(1))
    machine.write("models/top.gguf", model(2))
    assert names() == ["top"]
    monkeypatch.setattr("edgellm.models.walk._MAX_ENTRIES", 10)
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
    """What root sees too: scanning a folder raises."""
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
def test_what_is_no_file_does_not_block(machine: Machine) -> None:
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


def test_names_with_control_characters_are_refused_harmlessly(machine: Machine) -> None:
    if sys.platform == "win32":
        pytest.skip("such names cannot be written here")
    for i, end in enumerate(("a", "b")):
        machine.write(f"models/x\x1b[2J{end}.gguf", model(i + 1))
    assert "\x1b" not in refusal("x")
