"""Heads for multi-token prediction: what llama.cpp computes, the same bits in any batch, and the target's stay."""

from collections.abc import Callable
from pathlib import Path
from threading import enumerate as running_threads
from typing import Any, Literal
from weakref import ref

import numpy as np
import pytest
from numpy.typing import NDArray

from converters import convert
from edgellm.engine.head_engine import HeadEngine
from edgellm.engine.head_request import HeadRequest
from edgellm.engine.memory import aligned
from edgellm.engine.outputs import Outputs
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Segment
from edgellm.errors import EdgeLLMError, NoMemoryError
from support.engine_bits import opened
from support.head_references import head_reference
from support.heads import HEADS, head_of, opened_with_head, with_random_head
from support.llama_cpp_child import ask_llama_cpp
from support.llama_cpp_heads import HeadJob, head_rows
from support.model_file import FamilyFile

Features = NDArray[np.float32]
HeadFile = Callable[[str], Path]


@pytest.fixture(scope="module")
def head_file(family_file: FamilyFile, tmp_path_factory: pytest.TempPathFactory) -> HeadFile:
    folder = tmp_path_factory.mktemp("heads")
    return lambda name: with_random_head(family_file(name), folder / f"{name}.gguf")


def text(n: int, vocab: int, seed: int = 0) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(3, vocab, n)]


def new_sequence(head: HeadEngine) -> PagedSequence:
    return head.follow().own


def pairs(head: HeadEngine, tokens: list[int], features: Features, chunk: int = 1000) -> tuple[bytes, bytes]:
    """The bits of logits and states of all pairs, computed in chunks."""
    sequence, found = new_sequence(head), list[Outputs]()
    for i in range(0, len(tokens), chunk):
        part = tokens[i : i + chunk]
        found.append(head.compute([Segment(sequence, part, range(len(part)), features=features[i : i + chunk])]))
    return bits([each.logits for each in found]), bits([each.hidden for each in found])


def bits(rows: list[Features | None]) -> bytes:
    return np.concatenate([each for each in rows if each is not None]).tobytes()


def llama_cpp_file(shared: Path, name: str, folder: Path) -> Path:
    """llama.cpp's file of a checkpoint, or ours of that of DeepSeek-V3, whose layer its converter leaves out."""
    checkpoint = shared / "archs" / name
    if name == "deepseek_v3":
        convert(checkpoint, folder / "v3.gguf", "F16", tensor_types=[".*=F32"])
        return folder / "v3.gguf"
    return checkpoint / "model-f32.gguf"


@pytest.mark.parametrize("name", ["qwen3_5", "qwen3_5_moe", "qwen3_next", "glm4_moe", "deepseek_v3"])
def test_pairs_are_those_of_llama_cpp(shared: Path, tmp_path: Path, name: str) -> None:
    path = llama_cpp_file(shared, name, tmp_path)
    with opened_with_head(path, kv_type="f32") as engine:
        ids = text(40, engine.vocab)
        following = [*ids[1:], 7]
        oracle = ask_llama_cpp(head_rows, HeadJob(str(path), ids, following))
        own = engine.compute([Segment(engine.new_sequence(), ids)]).all_hidden
        head = head_of(engine)
        found = head.compute([Segment(new_sequence(head), following, range(40), features=oracle.features)])
    np.testing.assert_allclose(own, oracle.features, atol=1e-4)
    np.testing.assert_allclose(found.logits, oracle.logits, atol=1e-5)
    np.testing.assert_allclose(found.hidden, oracle.states, atol=1e-5)


@pytest.mark.parametrize("name", ["glm4_moe", "deepseek_v3"])
def test_states_are_those_of_transformers(shared: Path, tmp_path: Path, name: str) -> None:
    wanted = head_reference(name)
    with opened_with_head(llama_cpp_file(shared, name, tmp_path), kv_type="f32") as engine:
        head, ids = head_of(engine), wanted.ids.tolist()
        found = head.compute([Segment(new_sequence(head), ids, range(len(ids)), features=wanted.features)])
    np.testing.assert_allclose(found.hidden, wanted.states, atol=1e-5)


@pytest.mark.parametrize("name", HEADS)
def test_a_head_changes_nothing_of_its_target(head_file: HeadFile, name: str) -> None:
    path = head_file(name)
    with opened(path) as plain, opened_with_head(path) as engine:
        ids, wanted = text(50, plain.vocab), (0, 7, 49)
        alone = plain.compute([Segment(plain.new_sequence(), ids, wanted)])
        found = engine.compute([Segment(engine.new_sequence(), ids, wanted)])
        assert found.logits is not None and alone.logits is not None
        assert np.array_equal(found.logits.view(np.uint32), alone.logits.view(np.uint32))


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
@pytest.mark.parametrize("name", ["qwen3_5", "deepseek_v3"])
def test_pairs_of_eight_bits_are_near_those_of_floats(
    shared: Path, tmp_path: Path, name: str, kv_type: Literal["f16", "q8_0"]
) -> None:
    found = list[Outputs]()
    for kind, cells in (("F32", "f32"), ("Q8_0", kv_type)):
        path = tmp_path / f"{kind}.gguf"
        convert(shared / "archs" / name, path, "Q8_0", tensor_types=[".*=F32"] if kind == "F32" else [])
        with opened_with_head(path, kv_type=cells) as engine:
            head, ids = head_of(engine), text(40, engine.vocab)
            features = np.random.default_rng(1).standard_normal((40, head.head.model.width)).astype(np.float32)
            found.append(head.compute([Segment(new_sequence(head), ids, range(40), features=features)]))
    for floats, eight in ((found[0].logits, found[1].logits), (found[0].hidden, found[1].hidden)):
        assert floats is not None and eight is not None
        assert 0 < np.linalg.norm(eight - floats) < 0.03 * np.linalg.norm(floats)


@pytest.mark.parametrize(("name", "kv_type"), [("qwen3_5", "f16"), ("glm4_5_air", "f16"), ("glm4_5_air", "q8_0")])
def test_pairs_have_the_same_bits_in_any_batch(head_file: HeadFile, name: str, kv_type: str) -> None:
    path, found = head_file(name), set[tuple[bytes, bytes]]()
    for threads in (1, 3):
        with opened_with_head(path, threads, kv_type) as engine:
            head, ids = head_of(engine), text(61, engine.vocab)
            features = np.random.default_rng(1).standard_normal((61, head.head.model.width)).astype(np.float32)
            found |= {pairs(head, ids, features, chunk) for chunk in (1000, 1, 7)}
            mine, other = new_sequence(head), new_sequence(head)
            both = [
                head.compute(
                    [
                        Segment(other, ids[i + 1 : i + 9], features=features[:8]),
                        Segment(mine, ids[i : i + 16], range(len(ids[i : i + 16])), features=features[i : i + 16]),
                    ]
                )
                for i in range(0, 61 - 9, 16)
            ]
            beside = bits([each.logits for each in both]), bits([each.hidden for each in both])
            assert all(alone[i].startswith(beside[i]) for alone in found for i in range(2))
    assert len(found) == 1


def test_features_of_another_shape_are_refused(head_file: HeadFile) -> None:
    with opened_with_head(head_file("qwen3_5")) as engine:
        head, ids = head_of(engine), [5, 6]
        for features in (None, np.zeros((1, 64), np.float32), np.zeros((2, 63), np.float32)):
            with pytest.raises(EdgeLLMError, match="reads features of shape"):
                head.compute([Segment(new_sequence(head), ids, features=features)])


def test_a_head_without_memory_is_left_out(head_file: HeadFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> HeadEngine:
        raise NoMemoryError("no memory for 3 GB of activations")

    monkeypatch.setattr("edgellm.engine.head_request.HeadEngine", full)
    told = list[str]()
    with opened_with_head(head_file("glm4_5_air"), asked=lambda head: HeadRequest(head, told.append)) as engine:
        assert engine.draft_head is None and told == ["no memory for 3 GB of activations"]
        outputs = engine.compute([Segment(engine.new_sequence(), [5, 6], [1])])
        assert outputs.logits is not None and outputs.logits.shape == (1, engine.vocab)
        assert outputs.all_hidden is None, "the features that no head reads are not copied"


def test_a_model_that_fits_without_its_head_opens(head_file: HeadFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model for a head needs more than the model alone: both do not fit at once, and the head does not fit."""
    asked, live = list[int](), list[tuple[ref[Any], int]]()
    room = 1 << 40

    def check(needed: int, *_: object) -> None:
        asked.append(needed)
        if needed + sum(nbytes for buffer, nbytes in live if buffer() is not None) > room:
            raise NoMemoryError("no memory for activations")

    def counted(rows: int, row_bytes: int) -> NDArray[np.uint8]:
        buffer = aligned(rows, row_bytes)
        live.append((ref(buffer.base), rows * row_bytes))
        return buffer

    monkeypatch.setattr("edgellm.engine.cpu.check_memory", check)
    monkeypatch.setattr("edgellm.engine.cpu.aligned", counted)
    with opened_with_head(head_file("glm4_5_air")) as engine:
        assert engine.draft_head
    room = asked[0]
    told = list[str]()
    with opened_with_head(head_file("glm4_5_air"), asked=lambda head: HeadRequest(head, told.append)) as engine:
        assert engine.draft_head is None and told == ["no memory for activations"]
        assert engine.forward([Segment(engine.new_sequence(), [5, 6], [1])]).shape == (1, engine.vocab)


def test_where_a_head_cannot_be_opened_no_threads_are_left(
    head_file: HeadFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> HeadEngine:
        raise EdgeLLMError("the kernels for this CPU could not be made")

    monkeypatch.setattr("edgellm.engine.head_request.HeadEngine", broken)
    before = set(running_threads())
    with (
        pytest.raises(EdgeLLMError, match="kernels for this CPU"),
        opened_with_head(head_file("glm4_5_air"), threads=3),
    ):
        pass
    assert set(running_threads()) <= before
