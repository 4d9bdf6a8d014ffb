"""Models with a draft model: their files, and engines of draft models that open when a test says so."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from edgellm import Model
from edgellm.engine.native_engine import NativeEngine
from edgellm.gguf import GGUFFile
from edgellm.speculation import draft_model
from support.draft_models import damped, first_layers
from support.gguf_parts import GGUFParts
from support.model_file import ModelFile

SIZES: dict[str, Any] = {"width": 128, "layers": 6, "heads": 4, "kv_heads": 2, "head_dim": 32, "ffn": 256}
REPLY: dict[str, Any] = {"max_tokens": 60, "seed": 7, "temp": 0.8, "logit_bias": {2: -float("inf")}}
PROMPT = "the time was"


def write_draft_files(model_file: ModelFile, folder: Path) -> tuple[Path, Path]:
    """A target, and a draft model that guesses about all of its tokens."""
    parts = GGUFParts.read(model_file(**SIZES, types="F32"))
    target, draft = folder / "target.gguf", folder / "draft.gguf"
    target.write_bytes(damped(parts, 1, 8).build())
    draft.write_bytes(first_layers(parts, 1).build())
    return target, draft


class Opening:
    """The engines that draft models open: they wait for `go`, and are counted."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.go, self.begun, self.engines = Event(), Event(), list[NativeEngine]()
        self.passes = 0
        self.error: Exception | None = None
        self.compiles = False
        patch.setattr(draft_model, "NativeEngine", self._open)

    def _open(self, file: GGUFFile, **options: Any) -> NativeEngine:
        self.begun.set()
        assert self.go.wait(60)
        if self.error:
            raise self.error
        if self.compiles:
            options["progress"](1, 2)
            self.compiles = False
        engine = NativeEngine(file, **options)
        compute = engine.compute

        def counted(segments: Any) -> Any:
            self.passes += 1
            return compute(segments)

        engine.compute = counted  # type: ignore[method-assign]
        self.engines.append(engine)
        return engine


def until(done: Callable[[], object]) -> None:
    """Wait until something is so, for a minute at most."""
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.002)


def text_of(model: Model, **options: Any) -> list[int]:
    """The tokens of a reply."""
    return [token.id for token in model.stream(PROMPT, **{**REPLY, **options})]
