"""Where models are: in the folders of other programs, found by their rules, whatever is in them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgellm.models import find_models, resolve
from edgellm.models.stores import hugging_face_cache
from edgellm.system import folders as home
from support.local_models import Machine, machine, model

__all__ = ["machine"]


def names() -> list[str]:
    return [found.name for found in find_models()]


def test_environment_variables_of_stores(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_hugging_face_cache_is_where_its_library_finds_it(
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
        folders = (
            home.models_folder(),
            home.chats_file().parent,
            home.cache_folder(),
            home.machine_profile_file().parent,
        )
        assert folders == tuple(machine.home / "own" / name for name in ("models", "", "cache", "cache"))
        monkeypatch.setenv("EDGELLM_CACHE", value)
        assert home.cache_folder() == machine.home / "own"


def test_the_pointer_file_of_lm_studio(machine: Machine) -> None:
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


@pytest.mark.parametrize(
    "digest",
    ["sha256:../../../../secret", "sha256:" + "a" * 63, "sha256:" + "A" * 64, "md5:" + "a" * 64, "", "a" * 64 + "\n"],
)
def test_manifests_cannot_point_outside_the_store(machine: Machine, digest: str) -> None:
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
def test_manifests_without_a_model_are_skipped(machine: Machine, layers: bytes) -> None:
    machine.write(machine.ollama / "manifests/registry.ollama.ai/library/cloud/latest", b'{"layers": ' + layers + b"}")
    (machine.ollama / "manifests/registry.ollama.ai/library/cloud/folder").mkdir()
    assert find_models() == []
