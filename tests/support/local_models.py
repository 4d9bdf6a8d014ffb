"""A made-up machine for tests: a home and a current folder of its own, and the stores of other programs in it."""

import json
from pathlib import Path

import pytest

from edgellm.errors import ModelFileError
from edgellm.models import find_models, resolve
from support import gguf_bytes as raw

MODEL_LAYER = "application/vnd.ollama.image.model"


def model(width: int = 8, file_type: int | None = None, context: int | None = 2048) -> raw.RawGGUF:
    """A model of one F32 tensor with `width` values; different widths make different files."""
    pairs = [raw.string_pair("general.architecture", "llama")]
    if context is not None:
        pairs.append(raw.u32_pair("llama.context_length", context))
    if file_type is not None:
        pairs.append(raw.u32_pair("general.file_type", file_type))
    return raw.RawGGUF(tuple(pairs), (raw.f32_tensor("t", (width,), 0, [0.5] * width),))


class Machine:
    """Its folders; every method writes a file and returns its path."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.home, self.here, self.own = root / "home", root / "here", root / "own"
        for folder in (self.home, self.here, self.own):
            folder.mkdir()
        for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "OLLAMA_MODELS"):
            patch.delenv(name, raising=False)
        patch.setenv("HOME", str(self.home))
        patch.setenv("USERPROFILE", str(self.home))
        patch.setenv("EDGELLM_HOME", str(self.own))
        patch.setattr("edgellm.models.stores.SYSTEM_OLLAMA", root / "service")
        patch.setattr("edgellm.models.stores._built_in", tuple)
        patch.chdir(self.here)
        self.hub, self.ollama = self.home / ".cache/huggingface/hub", self.home / ".ollama/models"

    def write(self, path: Path | str, content: raw.RawGGUF | bytes | None = None) -> Path:
        """A file in the current folder, or anywhere else, a small model unless something else is given."""
        path = self.here / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else (content or model()).build())
        return path

    def hugging_face(self, repository: str, revision: str, name: str, content: raw.RawGGUF, main: bool = True) -> Path:
        """As `huggingface_hub` does it: a blob, and a link to it in the snapshot of a revision."""
        folder = self.hub / f"models--{repository.replace('/', '--')}"
        blob = self.write(folder / f"blobs/{hash(content.build()):x}", content)
        link = folder / "snapshots" / revision / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
        if main:
            self.write(folder / "refs/main", revision.encode())
        return link

    def manifest(self, name: str, digest: str, store: Path | None = None, kind: str = MODEL_LAYER) -> Path:
        """An ollama manifest; `name` is HOST/NAMESPACE/MODEL/TAG."""
        layers = [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "e" * 64}]
        layers.append({"mediaType": kind, "digest": digest})
        content = {"schemaVersion": 2, "layers": layers}
        return self.write((store or self.ollama) / "manifests" / name, json.dumps(content).encode())

    def ollama_model(self, name: str, digit: str, content: raw.RawGGUF, store: Path | None = None) -> Path:
        """A manifest and the blob that it names, whose hash is `digit` 64 times."""
        self.manifest(name, "sha256:" + digit * 64, store)
        return self.write((store or self.ollama) / "blobs" / f"sha256-{digit * 64}", content)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine without any models."""
    return Machine(tmp_path, monkeypatch)


def names() -> list[str]:
    """Those of all models that are found."""
    return [found.name for found in find_models()]


def refusal(name: str) -> str:
    """The one line with which a name is refused."""
    with pytest.raises(ModelFileError) as caught:
        resolve(name)
    message = str(caught.value)
    assert "\n" not in message
    return message
