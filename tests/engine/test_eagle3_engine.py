"""EAGLE-3 heads on the target's threads: what llama.cpp computes, the same bits in any batch, and their drafts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from edgellm.arch import describe
from edgellm.arch.eagle3 import read_eagle3_head
from edgellm.engine.feature_encoder import EncoderDevice
from edgellm.engine.head_engine import HeadEngine
from edgellm.engine.head_sequence import HeadSequence
from edgellm.engine.memory import aligned
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.outputs import Outputs
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Segment
from edgellm.errors import EdgeLLMError, NoMemoryError
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder
from support.certain_heads import CertainFiles, write_certain_head
from support.eagle3_heads import HEADS, Head, HeadFiles, Reference, write_head_files
from support.eagle3_llamacpp import HeadJob, head_results
from support.heads import needed
from support.llama_cpp_child import ask_llama_cpp
from support.oracle import llama_cpp_tokens

Floats = NDArray[np.float32]
HeadFile = Callable[[str], HeadFiles]
TOKENS = [int(i) for i in np.random.default_rng(2).integers(3, 320, 40)]


@pytest.fixture(scope="module")
def head_file(tmp_path_factory: pytest.TempPathFactory) -> HeadFile:
    """`head_file(name)`: files of a target and of a head of HEADS, with F32 weights."""
    root, written = tmp_path_factory.mktemp("heads"), dict[str, HeadFiles]()

    def get(name: str) -> HeadFiles:
        if name not in written:
            (root / name).mkdir()
            written[name] = write_head_files(root / name, name, "F32")
        return written[name]

    return get


@pytest.fixture(scope="module")
def certain(tmp_path_factory: pytest.TempPathFactory) -> CertainFiles:
    return write_certain_head(tmp_path_factory.mktemp("certain"))


@contextmanager
def opened(target: Path, head: Path, threads: int = 2) -> Iterator[NativeEngine]:
    """The engine of a target, with that of its head; keys and values are float32."""
    with GGUFFile.open(target) as file, GGUFFile.open(head) as head_file:
        engine = NativeEngine(
            file,
            threads=threads,
            ctx=128,
            kv_type="f32",
            cache=cache_folder(),
            draft_head=needed(read_eagle3_head(head_file, describe(file))),
        )
        yield engine
        engine.close()


def head_of(engine: NativeEngine) -> HeadEngine:
    assert engine.draft_head
    return engine.draft_head


def states_of(outputs: Outputs, engine: NativeEngine) -> Floats:
    """The target's states that the head reads, side by side."""
    return np.hstack([outputs.taps[layer] for layer in head_of(engine).head.taps])


def pairs(head: HeadEngine, tokens: list[int], features: Floats, chunk: int = 1000) -> tuple[Floats, Floats]:
    """Logits and states of all pairs, computed in chunks."""
    sequence, found = head.follow().own, list[Outputs]()
    for i in range(0, len(tokens), chunk):
        part = tokens[i : i + chunk]
        found.append(head.compute([Segment(sequence, part, range(len(part)), features=features[i : i + chunk])]))
    return joined([each.logits for each in found]), joined([each.residual for each in found])


def joined(rows: list[Floats | None]) -> Floats:
    return np.concatenate([each for each in rows if each is not None])


@pytest.mark.parametrize("name", HEADS)
def test_pairs_are_those_of_llama_cpp(name: str, head_file: HeadFile) -> None:
    files = head_file(name)
    layers = list(HEADS[name].taps or (2, 4, 5))
    assert llama_cpp_tokens(files.target, "the"), "the child opens the same file for its vocabulary alone"
    oracle = ask_llama_cpp(head_results, HeadJob(str(files.target), str(files.head), layers, TOKENS))
    with opened(files.target, files.head) as engine:
        head = head_of(engine)
        own = states_of(engine.compute([Segment(engine.new_sequence(), TOKENS)]), engine)
        logits, states = pairs(head, TOKENS[1:], oracle.inputs[:-1])
        spread = np.array([head.target_logits(row) for row in logits])
    np.testing.assert_allclose(own, oracle.inputs, atol=1e-4)
    np.testing.assert_allclose(states, oracle.states, atol=1e-4)
    np.testing.assert_allclose(spread, oracle.logits, atol=1e-4)


@pytest.mark.parametrize("name", HEADS)
def test_rows_of_drafts_read_features_as_they_are(name: str, head_file: HeadFile) -> None:
    files, spec = head_file(name), HEADS[name]
    features = np.random.default_rng(5).standard_normal((39, spec.width)).astype(np.float32)
    shared = load_file(files.target.with_suffix("") / "model.safetensors")
    expected = Reference(files.folder, spec, shared).run(TOKENS[1:], features.astype(np.float64))
    with opened(files.target, files.head) as engine:
        logits, states = pairs(head_of(engine), TOKENS[1:], features)
    np.testing.assert_allclose(states, expected.states, atol=1e-4)
    np.testing.assert_allclose(logits, expected.logits, atol=1e-4)


def test_a_head_may_have_a_width_of_no_whole_vectors(tmp_path: Path) -> None:
    """Its features begin in the middle of a vector of 16 values, behind the embedding."""
    spec = Head(width=40, own_embedding=True, norm_before_residual=True)
    files = write_head_files(tmp_path, "narrow", "F32", spec)
    reference = Reference(files.folder, spec, load_file(files.target.with_suffix("") / "model.safetensors"))
    features = np.random.default_rng(5).standard_normal((39, spec.width)).astype(np.float32)
    expected = reference.run(TOKENS[1:], features.astype(np.float64))
    with opened(files.target, files.head) as engine:
        logits, states = pairs(head_of(engine), TOKENS[1:], features)
    np.testing.assert_allclose(states, expected.states, atol=1e-4)
    np.testing.assert_allclose(logits, expected.logits, atol=1e-4)


def test_drafts_may_go_on_from_the_normed_state(tmp_path: Path) -> None:
    spec = Head(norm_output=True)
    files = write_head_files(tmp_path, "normed", "F32", spec)
    reference = Reference(files.folder, spec, load_file(files.target.with_suffix("") / "model.safetensors"))
    features = np.random.default_rng(5).standard_normal((6, spec.width)).astype(np.float32)
    expected = reference.run(TOKENS[:6], features.astype(np.float64))
    with opened(files.target, files.head) as engine:
        head = head_of(engine)
        outputs = head.compute([Segment(head.follow().own, TOKENS[:6], (5,), features=features)])
        found = head.next_features(outputs)
    np.testing.assert_allclose(found, reference.chained(expected.states)[-1:], atol=1e-4)
    assert abs(found - expected.states[-1:]).max() > 0.01


@pytest.mark.parametrize("name", ["midlayer", "speculators"])
def test_pairs_have_the_same_bits_in_any_batch(name: str, head_file: HeadFile) -> None:
    files, found = head_file(name), set[bytes]()
    for threads in (1, 3):
        with opened(files.target, files.head, threads) as engine:
            head = head_of(engine)
            states = states_of(engine.compute([Segment(engine.new_sequence(), TOKENS)]), engine)
            for chunk in (1000, 1, 7):
                found.add(b"".join(each.tobytes() for each in pairs(head, TOKENS[1:], states[:-1], chunk)))
            drafts = np.ones((3, head.head.model.width), np.float32)
            beside = Segment(head.follow().own, [5, 6, 7], features=drafts)
            alone = Segment(head.follow().own, TOKENS[1:], range(39), features=states[:-1])
            outputs = head.compute([beside, alone])
            found.add(joined([outputs.logits]).tobytes() + joined([outputs.residual]).tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("name", ["midlayer", "speculators"])
def test_a_head_changes_nothing_of_its_target(name: str, head_file: HeadFile) -> None:
    files, found = head_file(name), list[Floats | None]()
    with GGUFFile.open(files.target) as file:
        alone = NativeEngine(file, threads=2, ctx=128, kv_type="f32", cache=cache_folder())
        found.append(alone.compute([Segment(alone.new_sequence(), TOKENS, (0, 7, 39))]).logits)
        alone.close()
    with opened(files.target, files.head) as engine:
        found.append(engine.compute([Segment(engine.new_sequence(), TOKENS, (0, 7, 39))]).logits)
    assert np.array_equal(*[np.asarray(each).view(np.uint32) for each in found])


def test_features_of_another_shape_are_refused(head_file: HeadFile) -> None:
    files = head_file("midlayer")
    with opened(files.target, files.head) as engine:
        head = head_of(engine)
        for features in (
            None,
            np.zeros((1, 64), np.float32),
            np.zeros((1, 192), np.float32),
            np.zeros((2, 63), np.float32),
        ):
            with pytest.raises(EdgeLLMError, match="reads features of shape"):
                head.compute([Segment(head.follow().own, [5, 6], features=features)])


def test_drafts_of_a_certain_head_are_the_text(certain: CertainFiles) -> None:
    """Also after a token that is none of the drafts, and after going back."""
    with opened(certain.target, certain.head) as engine:
        sequence = engine.new_sequence()
        text = [7, 300, 5, 9]
        for other in (None, 100, None, 200):
            text.append(int(certain.following[text[-1]]) if other is None else other)
            compute_up_to(engine, sequence, text)
            assert drafts(head_of(engine), sequence, text, 5) == chain(certain, text[-1], 5)
            text += chain(certain, text[-1], 2)
        sequence.trim(6)
        text = [*text[:6], 33]
        assert drafts(head_of(engine), sequence, text, 4) == chain(certain, 33, 4)


def chain(files: CertainFiles, token: int, n: int) -> list[int]:
    """The n tokens that follow a token."""
    found = []
    for _ in range(n):
        token = int(files.following[token])
        found.append(token)
    return found


def compute_up_to(engine: NativeEngine, sequence: PagedSequence, text: list[int]) -> None:
    """Compute all tokens of a text but the last."""
    engine.compute([Segment(sequence, text[len(sequence) : -1])])


def test_a_head_whose_encoder_finds_no_memory_frees_its_own_at_once(
    certain: CertainFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffers = list[ref[Any]]()

    def followed(rows: int, row_bytes: int) -> NDArray[np.uint8]:
        buffer = aligned(rows, row_bytes)
        buffers.append(ref(buffer.base))
        return buffer

    def full(*_: object, **__: object) -> EncoderDevice:
        raise NoMemoryError("no memory for 3 GB")

    with opened(certain.target, certain.head) as engine:
        options: dict[str, Any] = {"kv_type": "f32", "ctx": 128, "cache": cache_folder(), "check": lambda: None}
        options |= {"pool": engine.pool, "pages": engine._runner.cpu.pages}
        monkeypatch.setattr("edgellm.engine.cpu.aligned", followed)
        monkeypatch.setattr("edgellm.engine.head_engine.EncoderDevice", full)
        with pytest.raises(NoMemoryError) as error:
            HeadEngine(head_of(engine).head, **options)
        assert buffers and not any(buffer() is not None for buffer in buffers), f"{error} has frames, but no memory"


def drafts(head: HeadEngine, sequence: PagedSequence, text: list[int], n: int) -> list[int]:
    """The most likely tokens of n passes."""
    state = sequence.follower
    assert isinstance(state, HeadSequence)
    segment, found = state.segment(text, head.max_rows), list[int]()
    assert segment and segment.wanted
    rows = len(segment.tokens)
    outputs = head.compute([segment])
    state.confirm(rows)
    while True:
        assert outputs.logits is not None
        found.append(int(head.target_logits(outputs.logits[-1]).argmax()))
        if len(found) == n:
            return found
        features = head.next_features(outputs)
        outputs = head.compute([Segment(state.own, [found[-1]], (0,), features=features)])


def test_a_long_prompt_keeps_its_newest_states_alone(certain: CertainFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that waits does not hold the memory of its whole batch."""
    monkeypatch.setattr("edgellm.engine.feature_rows._MOST_ROWS", 10)
    with opened(certain.target, certain.head) as engine:
        sequence = engine.new_sequence()
        text = [7, *chain(certain, 7, 60)]
        compute_up_to(engine, sequence, text)
        state = sequence.follower
        assert isinstance(state, HeadSequence)
        assert state.lag(text) == 10
        assert all(row.base is None for row in state._rows)
        assert sum(row.nbytes for row in state._rows) == 10 * 3 * 64 * 4
        assert drafts(head_of(engine), sequence, text, 5) == chain(certain, text[-1], 5)
