"""The models in a store of ollama: a manifest for each name, and blobs named by their hash.

    manifests/HOST/NAMESPACE/MODEL/TAG    JSON: {"layers": [{"mediaType": ..., "digest": "sha256:..."}, ...]}
    blobs/sha256-...                      the layer with the media type of a model is a GGUF file

Source: ollama's documentation of its manifests (server/internal/manifest).
"""

import json
import re
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

_MODEL = "application/vnd.ollama.image.model"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_MAX_MANIFESTS = 10_000
_MAX_BYTES = 1 << 20


def ollama_models(store: Path) -> Iterator[tuple[str, Path]]:
    """The names in a store, as ollama shows them, and their files.

    For a manifest that is damaged, or points outside the store, the file is the manifest itself; opening it reports
    that it is no model.
    """
    manifests = store / "manifests"
    for manifest in sorted(islice(manifests.glob("*/*/*/*"), _MAX_MANIFESTS)):
        host, namespace, model, tag = manifest.relative_to(manifests).parts
        if path := _blob(store, manifest):
            yield _name(host, namespace, f"{model}:{tag}"), path


def _name(host: str, namespace: str, model: str) -> str:
    if host != "registry.ollama.ai":
        return f"{host}/{namespace}/{model}"
    return model if namespace == "library" else f"{namespace}/{model}"


def _blob(store: Path, manifest: Path) -> Path | None:
    """The model file of a manifest; None if it has none, as those of models that run in the cloud."""
    layers = _layers(manifest)
    if layers is None:
        return manifest
    for layer in layers:
        if isinstance(layer, dict) and layer.get("mediaType") == _MODEL:
            digest = _DIGEST.fullmatch(str(layer.get("digest")))
            return store / "blobs" / f"sha256-{digest[1]}" if digest else manifest
    return None


def _layers(manifest: Path) -> list[Any] | None:
    """The layers that a manifest lists: an empty list for a folder, None for a file that is no manifest."""
    try:
        found = manifest.stat()
        if stat.S_ISDIR(found.st_mode):
            return []
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
            return None
        content = json.loads(manifest.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    layers = content.get("layers") if isinstance(content, dict) else None
    return layers if isinstance(layers, list) else None
