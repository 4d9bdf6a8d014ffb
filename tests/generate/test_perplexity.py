"""Perplexity and KL divergence from a reference: against plain formulas, llama.cpp's logits, and by bootstrap."""

import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm import Model
from edgellm.engine import protocol
from edgellm.errors import EdgeLLMError, OptionError
from edgellm.perplexity import Perplexity, compare, perplexity
from edgellm.perplexity.metrics import Softmax
from support.model_file import ModelFile
from support.oracle import llama_cpp_logits, llama_cpp_tokens

TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
TEXT = "the time was on and the rest is in an inn, the end of that thing; " * 12
Array = NDArray[np.float64]


def log_softmax(logits: NDArray[Any]) -> Array:
    """Log probabilities [rows, vocab], all in float64."""
    wide = logits.astype(np.float64)
    found: Array = wide - np.logaddexp.reduce(wide, axis=1)[:, None]
    return found


def window_scores(logits: NDArray[np.float32], window: Sequence[int]) -> tuple[Array, Array]:
    """The scored rows' log probabilities of a window, and those of its targets, in the second half."""
    half = len(window) // 2
    rows = log_softmax(logits[half : len(window) - 1])
    return rows, np.array([row[token] for row, token in zip(rows, window[half + 1 :], strict=True)])


def windows_of(ids: Sequence[int], ctx: int, bos: int | None) -> list[list[int]]:
    whole = [list(ids[i : i + ctx]) for i in range(0, len(ids), ctx)]
    return [([bos] if bos is not None else window[:1]) + window[1:] for window in whole if len(window) == ctx]


def standard_error(values: Array) -> float:
    """The standard error of the mean, as llama.cpp computes it from the sums of values and squares."""
    n = len(values)
    return math.sqrt(((values**2).sum() / n - (values.sum() / n) ** 2) / (n - 1))


@pytest.mark.parametrize(("tokenizer", "ctx", "scored"), [("llama", 40, 19), ("llama", 41, 20), ("gpt2", 40, 19)])
def test_perplexity_by_a_plain_formula(model_file: ModelFile, tokenizer: str, ctx: int, scored: int) -> None:
    with Model.open(model_file(**TINY, tokenizer=tokenizer), threads=1) as model:
        bos = model.tokenizer.bos_id if tokenizer == "llama" else None
        windows = windows_of(model.tokenizer.encode(TEXT, add_special=True), ctx, bos)
        came = np.concatenate([window_scores(model.logits(window), window)[1] for window in windows])
        found = perplexity(model, TEXT, ctx=ctx)
    assert len(windows) > 3
    assert (found.ctx, found.windows, found.of) == (ctx, len(windows), len(windows))
    assert found.tokens == len(came) == len(windows) * scored
    assert found.perplexity == pytest.approx(math.exp(-came.mean()), rel=1e-6)
    assert found.perplexity_error == pytest.approx(found.perplexity * standard_error(came), rel=1e-5)


def test_distance_by_plain_formulas(model_file: ModelFile) -> None:
    with (
        Model.open(model_file(**TINY), threads=1) as model,
        Model.open(model_file(**TINY, seed=1), threads=1) as reference,
    ):
        windows = windows_of(model.tokenizer.encode(TEXT, add_special=True), 64, model.tokenizer.bos_id)
        ours, theirs = (
            [window_scores(each.logits(window), window) for window in windows] for each in (model, reference)
        )
        found = compare(model, reference, TEXT, ctx=64)
    (p, a), (q, b) = ([np.concatenate(part) for part in zip(*side, strict=True)] for side in (ours, theirs))
    kl = (np.exp(q) * (q - p)).sum(axis=1)
    same = np.mean(p.argmax(axis=1) == q.argmax(axis=1))
    n = len(a)
    assert found.reference_perplexity == pytest.approx(math.exp(-b.mean()), rel=1e-6)
    assert found.reference_perplexity_error == pytest.approx(math.exp(-b.mean()) * standard_error(b), rel=1e-5)
    assert found.ratio == pytest.approx(math.exp(b.mean() - a.mean()), rel=1e-6)
    covariance = (np.mean(a * b) - a.mean() * b.mean()) / (n - 1)
    variance = standard_error(a) ** 2 + standard_error(b) ** 2 - 2 * covariance
    assert found.ratio_error == pytest.approx(found.ratio * math.sqrt(variance), rel=1e-5)
    assert (found.kl, found.kl_max) == pytest.approx((kl.mean(), kl.max()), rel=1e-5)
    assert found.kl_error == pytest.approx(standard_error(kl), rel=1e-4)
    ordered = np.sort(kl)
    assert found.kl_median == pytest.approx(ordered[[(n - 1) // 2, n // 2]].mean(), rel=1e-5)
    below = int(0.99 * (n - 1))
    assert ordered[below] <= found.kl_p99 <= ordered[below + 1]
    assert (found.top1, found.top1_error) == pytest.approx((same, math.sqrt(same * (1 - same) / (n - 1))))
    assert 0 < same < 1


def llama_cpp_perplexity(path: Path, ids: list[int], ctx: int) -> float:
    """Over the logits that llama.cpp computes."""
    windows = windows_of(ids, ctx, ids[0])
    came = [window_scores(llama_cpp_logits(path, window, kv_type="f32"), window)[1] for window in windows]
    return math.exp(-np.concatenate(came).mean())


def test_llama_cpp_finds_the_same(model_file: ModelFile) -> None:
    path = model_file(**TINY)
    with Model.open(path, threads=1, kv_type="f32") as model:
        ids = model.tokenizer.encode(TEXT, add_special=True)
        found = perplexity(model, TEXT, ctx=200)
    assert found.perplexity == pytest.approx(llama_cpp_perplexity(path, ids, 200), rel=1e-4)


def test_llama_cpp_finds_the_same_of_stories(shared: Path) -> None:
    path = shared / "models/stories260K/stories260K-f32.gguf"
    text = (shared / "text/tiny.utf8").read_text(encoding="utf-8")[:1500]
    with Model.open(path, threads=1, kv_type="f32") as model:
        found = perplexity(model, text, ctx=256)
    ids = llama_cpp_tokens(path, text, add_bos=True)
    assert found.perplexity == pytest.approx(llama_cpp_perplexity(path, ids, 256), rel=1e-4)
    assert 3 < found.perplexity < 15


def test_a_model_is_no_distance_from_itself(model_file: ModelFile) -> None:
    path = model_file(**TINY)
    with Model.open(path, threads=1) as model, Model.open(path, threads=2) as same:
        found = compare(model, same, TEXT, ctx=50)
        alone = perplexity(model, TEXT, ctx=50)
    assert (found.ratio, found.ratio_error, found.top1, found.top1_error) == (1, 0, 1, 0)
    assert (found.kl, found.kl_error, found.kl_max) == (0, 0, 0)
    assert (found.perplexity, found.perplexity_error) == (alone.perplexity, alone.perplexity_error)


class Canned(protocol.Sequence):
    """A sequence of a model whose logits are given, by position in the text."""

    def fork(self) -> Any:
        raise NotImplementedError

    def trim(self, n: int) -> int:
        raise NotImplementedError


class CannedModel:
    """A model over tokens 0 … vocab - 1; its text is their numbers. `asked` has (rows, logits) of every forward."""

    max_rows = 256

    def __init__(self, logits: NDArray[np.float32], ctx: int) -> None:
        self.logits, self.ctx, self.vocab = logits, ctx, logits.shape[1]
        vocabulary = SimpleNamespace(texts=[str(i).encode() for i in range(self.vocab)])
        self.tokenizer = SimpleNamespace(
            add_bos=False, bos_id=None, vocabulary=vocabulary, encode=lambda text, **_: list(map(int, text.split()))
        )
        self.engine, self.file = self, SimpleNamespace(path=Path("canned.gguf"))
        self.asked: list[tuple[int, int]] = []
        self._started = 0

    def new_sequence(self) -> Canned:
        self._started += self.ctx
        return Canned()

    def forward(self, segments: Sequence[protocol.Segment[Canned]]) -> NDArray[np.float32]:
        (segment,) = segments
        first = self._started - self.ctx + len(segment.sequence)
        segment.sequence.tokens.extend(segment.tokens)
        rows = self.logits[[first + i for i in segment.wanted]]
        self.asked.append((len(segment.tokens), rows.size))
        return rows


def canned(logits: NDArray[Any], ctx: int) -> Any:
    return CannedModel(logits.astype(np.float32, copy=False), ctx)


def test_standard_errors_by_bootstrap() -> None:
    rng = np.random.default_rng(7)
    n = 6000
    logits = rng.standard_normal((n, 5)) * 2
    near = logits + rng.standard_normal((n, 5)) * 0.3
    ids = [rng.choice(5, p=np.exp(row)) for row in log_softmax(logits)]
    text = " ".join(map(str, np.roll(ids, 1)))
    found = compare(canned(near, n // 2), canned(logits, n // 2), text, ctx=n // 2)

    p, q = log_softmax(near), log_softmax(logits)
    scored = np.concatenate([np.arange(n // 4, n // 2 - 1), np.arange(3 * n // 4, n - 1)])
    came = np.array(ids)[scored]
    ours, theirs = -p[scored, came], -q[scored, came]
    kl = (np.exp(q) * (q - p)).sum(axis=1)[scored]
    top = (p.argmax(axis=1) == q.argmax(axis=1))[scored]
    draws = rng.integers(0, len(scored), (1000, len(scored)))
    for name, values in {
        "perplexity": np.exp(ours[draws].mean(axis=1)),
        "reference_perplexity": np.exp(theirs[draws].mean(axis=1)),
        "ratio": np.exp((ours - theirs)[draws].mean(axis=1)),
        "kl": kl[draws].mean(axis=1),
        "top1": top[draws].mean(axis=1),
    }.items():
        assert getattr(found, name) == pytest.approx(values.mean(), abs=values.std() / 5), name
        assert getattr(found, f"{name}_error") == pytest.approx(values.std(), rel=0.1), name
    assert found.ratio_error < found.perplexity_error / found.perplexity / 2  # it is the covariance that does this


@pytest.mark.parametrize(("vocab", "rows"), [(131072, 64), (5, 256)])
def test_memory_is_bounded_and_no_row_is_computed_twice(vocab: int, rows: int) -> None:
    model = canned(np.broadcast_to(np.zeros(vocab, np.float32), (1200, vocab)), 600)
    found = perplexity(model, " ".join("1" * 1200), ctx=600)
    assert found.perplexity == pytest.approx(vocab)
    assert max(size for _, size in model.asked) == rows * vocab <= 32 << 20 >> 2
    assert sum(n for n, _ in model.asked) == 2 * 599
    assert sum(size for _, size in model.asked) == 2 * 299 * vocab


@pytest.mark.parametrize("offset", [0.0, 1000.0, -3e4])
def test_float32_exponentials_lose_nothing_that_matters(offset: float) -> None:
    rng = np.random.default_rng(3)
    logits = (rng.standard_normal((4, 128_000)) * 4 + offset).astype(np.float32)
    other = logits + rng.standard_normal(logits.shape).astype(np.float32) * np.float32(0.01)
    logits[0, 7] += 30  # a model that is sure
    logits[1, 8] = other[1, 8] = -1e30
    p, q = Softmax.of(logits), Softmax.of(other)
    exact, exact_other = log_softmax(logits), log_softmax(other)
    came = np.array([7, 3, 4, 5])
    assert np.abs(p.negative_log_likelihood(came) + exact[np.arange(4), came]).max() < 1e-6
    kl = (np.exp(exact) * (exact - exact_other)).sum(axis=1)
    assert np.abs(p.kl_divergence(q) - kl).max() < 1e-6


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_logits_that_are_no_numbers_are_an_error(bad: float) -> None:
    logits = np.zeros((20, 5))
    logits[8, 2] = bad
    text = " ".join("1" * 20)
    healthy = canned(np.zeros((20, 5)), 10)
    message = r"^canned\.gguf.*: computes NaN, infinite or implausible logits; edgellm verify may tell why$"
    with pytest.raises(EdgeLLMError, match=message):
        perplexity(canned(logits, 10), text)
    for pair in (canned(logits, 10), healthy), (healthy, canned(logits, 10)):
        with pytest.raises(EdgeLLMError, match=message):
            compare(*pair, text)


def test_a_token_that_the_model_has_not_is_an_error() -> None:
    """The last token of a window is only a target; the engine, which would raise, never computes it."""
    with pytest.raises(EdgeLLMError, match=r"^token id 5 is not in the vocabulary of 5$"):
        perplexity(canned(np.zeros((20, 5)), 10), " ".join("1" * 19 + "5"))


def test_progress_has_the_figures_so_far(model_file: ModelFile) -> None:
    seen: list[Perplexity] = []
    with Model.open(model_file(**TINY), threads=1) as model:
        last = perplexity(model, TEXT, ctx=64, progress=seen.append)
        n = len(model.tokenizer.encode(TEXT, add_special=True))
        short = perplexity(model, TEXT[: len(TEXT) // 2], ctx=64)
    assert [each.windows for each in seen] == list(range(1, n // 64 + 1))
    assert seen[-1] == last
    so_far = seen[short.windows - 1]
    assert (so_far.perplexity, so_far.tokens) == (short.perplexity, short.tokens)


def test_the_window_is_512_or_the_context_of_the_model(model_file: ModelFile) -> None:
    with Model.open(model_file(**TINY, context_length=2048), threads=1) as model:
        assert perplexity(model, TEXT * 3).ctx == 512
    with Model.open(model_file(**TINY), threads=1, ctx=30) as model:
        assert perplexity(model, TEXT).ctx == 30
        with pytest.raises(OptionError, match=r"^option ctx cannot be 31: give a whole number, from 5 to 30$"):
            perplexity(model, TEXT, ctx=31)
        with pytest.raises(OptionError, match=r"^option ctx cannot be 4: "):
            perplexity(model, TEXT, ctx=4)


def test_the_least_window_has_a_standard_error_from_the_first_one_on(model_file: ModelFile) -> None:
    errors: list[float] = []
    with Model.open(model_file(**TINY), threads=1) as model:
        perplexity(model, TEXT[:100], ctx=5, progress=lambda so_far: errors.append(so_far.perplexity_error))
    assert len(errors) > 1
    assert np.isfinite(errors).all()


def test_less_than_two_windows_is_an_error(model_file: ModelFile) -> None:
    with Model.open(model_file(**TINY), threads=1) as model:
        with pytest.raises(
            EdgeLLMError, match=r"^the text has 1 token, and at least 200 are needed: give .* smaller ctx="
        ):
            perplexity(model, "", ctx=100)
        n = len(model.tokenizer.encode(TEXT, add_special=True))
        assert perplexity(model, TEXT, ctx=n // 2).windows == 2
        with pytest.raises(EdgeLLMError, match=rf"^the text has {n} tokens, "):
            perplexity(model, TEXT, ctx=n // 2 + 1)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"vocab": 321}, "has 321 tokens, but {} has 320"),
        ({"tokenizer": "gpt2"}, 'has "<|end|>" as token 0, but {} has "<unk>"'),
    ],
)
def test_a_reference_with_another_vocabulary_is_an_error(
    model_file: ModelFile, other: dict[str, Any], difference: str
) -> None:
    path, reference = model_file(**TINY), model_file(**TINY, **other)
    with (
        Model.open(path, threads=1) as model,
        Model.open(reference, threads=1) as strange,
        pytest.raises(EdgeLLMError) as raised,
    ):
        compare(model, strange, TEXT, ctx=50)
    said = f"{reference}: {difference.format(path)}; give a reference with the same vocabulary"
    assert str(raised.value) == said
