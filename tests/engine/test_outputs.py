"""What an engine gives besides logits: hidden states behind the last norm, and behind chosen layers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm.arch import describe
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.outputs import Outputs, OutputSettings
from edgellm.engine.protocol import Segment
from edgellm.errors import EdgeLLMError
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder
from support.model_file import ModelFile

IDS = [1, *map(int, np.random.default_rng(2).integers(3, 320, 40))]
WANTED = (0, 7, 40)


@contextmanager
def opened(path: Path, outputs: OutputSettings) -> Iterator[NativeEngine]:
    with GGUFFile.open(path) as file:
        engine = NativeEngine(file, threads=2, ctx=256, kv_type="f32", cache=cache_folder(), outputs=outputs)
        yield engine
        engine.close()


def computed(path: Path, outputs: OutputSettings, ids: list[int] = IDS) -> Outputs:
    with opened(path, outputs) as engine:
        return engine.compute([Segment(engine.new_sequence(), ids, WANTED)])


def normed(x: NDArray[np.float32], weight: NDArray[np.float32], eps: float) -> NDArray[np.float64]:
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + eps) * weight


def test_the_hidden_state_is_what_the_output_matrix_reads(model_file: ModelFile) -> None:
    path = model_file(types="F32")
    found = computed(path, OutputSettings(hidden=True))
    with GGUFFile.open(path) as file:
        model = describe(file)
        matrix = model.output.weight.data.view("<f4").reshape(model.vocab, model.width)
        assert found.hidden is not None and found.logits is not None
        np.testing.assert_allclose(found.hidden @ matrix.T, found.logits, atol=1e-4)
    assert found.hidden.shape == (len(WANTED), 512)
    assert np.array_equal(computed(path, OutputSettings()).logits, found.logits), "logits do not depend on it"


@pytest.mark.parametrize("types", ["F32", "Q8_0"])
def test_a_tap_is_the_hidden_state_of_all_rows_behind_a_layer(model_file: ModelFile, types: str) -> None:
    """The model behind its last layer: the last norm of the tap is the hidden state of the wanted rows."""
    path = model_file(types=types, layers=3)
    found = computed(path, OutputSettings(hidden=True, taps=frozenset({0, 2})))
    assert sorted(found.taps) == [0, 2]
    assert found.taps[0].shape == found.taps[2].shape == (len(IDS), 512)
    with GGUFFile.open(path) as file:
        model = describe(file)
        assert model.output_norm.weight and found.hidden is not None
        weight = model.output_norm.weight.data.view("<f4")
        expected = normed(found.taps[2][list(WANTED)], weight, model.output_norm.eps)
    np.testing.assert_allclose(found.hidden, expected, atol=1e-5)
    assert np.array_equal(computed(path, OutputSettings()).logits, found.logits)


def test_a_tap_has_the_bits_of_a_model_that_ends_there(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = model_file(types="Q8_0", layers=3)
    whole = computed(path, OutputSettings(taps=frozenset({1}))).taps[1]
    monkeypatch.setattr(
        "edgellm.engine.native_engine.describe", lambda file: replace(m := describe(file), layers=m.layers[:2])
    )
    short = computed(path, OutputSettings(taps=frozenset({1}))).taps[1]
    assert np.array_equal(whole, short)


def test_an_engine_without_logits_reads_no_output_matrix(model_file: ModelFile) -> None:
    path = model_file(types="F32", tied=False)
    found = computed(path, OutputSettings(logits=False, hidden=True))
    assert found.logits is None
    assert np.array_equal(found.hidden, computed(path, OutputSettings(hidden=True)).hidden)


def test_embeddings_replace_those_of_tokens(model_file: ModelFile) -> None:
    """The embedding of another token gives that token's logits, and leaves the rest as it is."""
    path, other = model_file(types="F32"), [*IDS[:5], 77, *IDS[6:]]
    with opened(path, OutputSettings()) as engine, GGUFFile.open(path) as file:
        table = describe(file).embedding.data.view("<f4").reshape(-1, 512)
        given = engine.compute([Segment(engine.new_sequence(), IDS, WANTED, {5: table[77]})])
        plain = engine.compute([Segment(engine.new_sequence(), other, WANTED)])
        assert np.array_equal(given.logits, plain.logits)


@pytest.mark.parametrize(
    "given", [{5: np.zeros(511, np.float32)}, {41: np.zeros(512, np.float32)}, {-1: np.zeros(512)}]
)
def test_embeddings_that_do_not_fit_are_refused(model_file: ModelFile, given: dict[int, NDArray[np.float32]]) -> None:
    with opened(model_file(types="F32"), OutputSettings()) as engine:
        sequence = engine.new_sequence()
        with pytest.raises(EdgeLLMError, match=r"the embedding of token (5|41|-1) has shape \[51[12]\]; give \[512\]"):
            engine.compute([Segment(sequence, IDS, WANTED, given)])
        assert len(sequence) == 0


@pytest.mark.parametrize("layer", [-1, 3])
def test_taps_at_layers_that_are_not_there_are_refused(model_file: ModelFile, layer: int) -> None:
    """With one behind the last layer, logits of all rows would go where there is room for those of wanted rows."""
    with (
        pytest.raises(EdgeLLMError, match=f"no layer {layer} to tap: the model has layers 0 to 2"),
        opened(model_file(types="F32", layers=3), OutputSettings(taps=frozenset({layer, 1}))),
    ):
        pass


def test_embeddings_are_computed_with_again_where_the_state_was_lost(model_file: ModelFile) -> None:
    path = model_file(types="F32")
    with opened(path, OutputSettings()) as engine, GGUFFile.open(path) as file:
        table = describe(file).embedding.data.view("<f4").reshape(-1, 512)
        sequence, other = engine.new_sequence(), engine.new_sequence()
        engine.compute([Segment(sequence, IDS[:20])])
        engine.compute([Segment(sequence, IDS[20:], embeddings={3: table[77], 15: table[78]})])
        sequence.trim(30)
        assert sequence.fork().embeddings.keys() == {23}
        engine._failover.rows = 16
        engine._failover.restore(sequence)
        engine.compute([Segment(other, [*IDS[:16]])])
        engine.compute([Segment(other, [*IDS[16:23], 77, *IDS[24:30]])])
        after = [engine.compute([Segment(each, [5], [0])]).logits for each in (sequence, other)]
        assert np.array_equal(*after)
