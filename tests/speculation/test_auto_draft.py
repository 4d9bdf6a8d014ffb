"""The draft model of a model: chosen among the files of a machine, or refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgellm.arch import describe
from edgellm.errors import EdgeLLMWarning, ModelFileError, NoMemoryError, UnsupportedModelError
from edgellm.gguf import GGUFFile
from edgellm.speculation import auto_draft, draft_file
from edgellm.speculation.auto_draft import open_draft
from edgellm.speculation.draft_file import DraftTarget
from edgellm.speculation.draft_sizes import active_bytes
from edgellm.text.tokenizer import Tokenizer
from support import gguf_bytes as raw
from support.gguf_parts import GGUFParts
from support.local_models import Machine, machine
from support.make_gguf import write_model

__all__ = ["machine"]

SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 64, "types": "Q8_0"}


def write(machine: Machine, name: str, **options: Any) -> Path:
    path = machine.here / "models" / f"{name}.gguf"
    path.parent.mkdir(exist_ok=True)
    write_model(path, **{**SIZES, **options})
    return path


@contextmanager
def target_of(path: Path) -> Iterator[DraftTarget]:
    with GGUFFile.open(path) as file:
        yield DraftTarget(file, describe(file), Tokenizer(file))


def chosen(path: Path, choice: str = "auto") -> str | None:
    with target_of(path) as target:
        if (found := open_draft(choice, target)) is None:
            return None
        with found:
            return found.file.path.stem


def size_of(path: Path) -> int:
    with GGUFFile.open(path) as file:
        return active_bytes(describe(file))


@pytest.fixture
def target(machine: Machine) -> Path:
    return write(machine, "talk-9b", layers=70)


def test_the_smallest_model_above_a_fortieth_is_chosen(machine: Machine, target: Path) -> None:
    sizes = {layers: write(machine, f"talk-{layers}b", layers=layers) for layers in (3, 5, 12)}
    tiny = write(machine, "talk-tiny", layers=1, ffn=32)
    large = write(machine, "talk-large", layers=20)
    whole = size_of(target)
    assert size_of(tiny) < whole / 40 < size_of(sizes[3])
    assert size_of(sizes[12]) < whole / 4 < size_of(large)
    assert chosen(target) == "talk-3b"
    sizes[3].unlink()
    assert chosen(target) == "talk-5b"
    sizes[5].unlink()
    sizes[12].unlink()
    assert chosen(target) == "talk-tiny", "the largest of those that are too small"
    tiny.unlink()
    with pytest.warns(EdgeLLMWarning, match=r"no model on this machine can draft for it: none .*; it runs without one"):
        assert chosen(target) is None


def test_models_of_the_same_architecture_come_first(machine: Machine, target: Path) -> None:
    write(machine, "other", arch="qwen2", layers=3)
    assert chosen(target) == "other"
    write(machine, "own", layers=12)
    assert chosen(target) == "own"


def test_of_equal_models_the_one_with_the_likest_name(machine: Machine, target: Path) -> None:
    for name in ("alike", "talk-0b", "zeta"):
        write(machine, name, layers=5)
    assert chosen(target) == "talk-0b"


@pytest.mark.parametrize("options", [{"vocab": 400}, {"tokenizer": "gpt2"}])
def test_another_vocabulary_is_not_chosen_but_refused(machine: Machine, target: Path, options: dict[str, Any]) -> None:
    path = write(machine, "other", layers=5, **options)
    with pytest.warns(EdgeLLMWarning, match="no model on this machine"):
        assert chosen(target) is None
    with pytest.raises(UnsupportedModelError, match=r"other\.gguf writes text with other tokens than .*talk-9b\.gguf"):
        chosen(target, str(path))


def test_damaged_files_are_passed_over(machine: Machine, target: Path) -> None:
    machine.write("models/broken.gguf", b"GGUF" + bytes(40))
    machine.write("models/strange.gguf")  # without a tokenizer, and of no model
    write(machine, "talk-1b", layers=5)
    assert chosen(target) == "talk-1b"


def test_files_of_no_model_are_never_chosen(machine: Machine, target: Path) -> None:
    """Not even if all else fits: a small model whose file says that it is something else."""
    for key, value in {"general.type": "adapter", "general.architecture": "eagle3"}.items():
        path = write(machine, value, layers=5)
        parts = GGUFParts.read(path)
        path.write_bytes(replace(parts, pairs=parts.pairs | {key: raw.string_pair(key, value)}).build())
    with pytest.warns(EdgeLLMWarning, match="no model on this machine"):
        assert chosen(target) is None


def test_a_draft_model_must_fit_in_memory_beside_the_model(
    machine: Machine, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(machine, "talk-1b", layers=5)
    whole, free = target.stat().st_size, target.stat().st_size + path.stat().st_size
    for module in (auto_draft, draft_file):
        monkeypatch.setattr(module, "available_memory", lambda: free)
    assert chosen(target) == "talk-1b"
    free -= 1
    with pytest.warns(EdgeLLMWarning, match="no model on this machine"):
        assert chosen(target) is None
    with target_of(target) as opened, open_draft(str(path), opened) or pytest.fail("none") as draft:
        with pytest.raises(NoMemoryError, match=r"no memory for the draft model .*talk-1b\.gguf, which has .*--draft"):
            draft.check_memory(whole)
        draft.check_memory(whole - 1)


def test_a_draft_model_may_be_named(machine: Machine, target: Path) -> None:
    write(machine, "talk-1b", layers=20)
    assert chosen(target, "talk-1") == "talk-1b", "by a name of this machine, whatever auto would choose"
    assert chosen(target, "models/talk-1b.gguf") == "talk-1b"
    assert chosen(target, str(target)) == "talk-9b", "a model may draft for itself"
    assert chosen(target, "off") is None


def test_no_such_file_and_a_larger_one_are_refused(machine: Machine, target: Path) -> None:
    with pytest.raises(ModelFileError, match="there is no file and no model named none"):
        chosen(target, "none")
    with pytest.raises(ModelFileError, match=r"none\.gguf"):
        chosen(target, "./none.gguf")
    large = write(machine, "large", layers=71)
    with pytest.raises(UnsupportedModelError, match=r"large\.gguf is too large for a draft model: it reads .* smaller"):
        chosen(target, str(large))


def test_files_are_closed_after_a_refusal(machine: Machine, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large, closed = write(machine, "large", layers=71), list[str]()
    close = GGUFFile.close
    monkeypatch.setattr(GGUFFile, "close", lambda file: (closed.append(file.path.stem), close(file))[1])
    with target_of(target) as opened, pytest.raises(UnsupportedModelError):
        open_draft(str(large), opened)
    assert closed == ["large", "talk-9b"]
