"""How well a model predicts a text, and how far it is from a reference model.

    from edgellm.perplexity import compare, perplexity
    with Model.open("q4.gguf") as model, Model.open("f16.gguf") as reference:
        print(perplexity(model, text).perplexity, compare(model, reference, text).kl)

The text is cut into windows of `ctx` tokens that do not overlap; what is left behind the last one is not used. The
model begins anew in each of them, and the tokens behind position ctx // 2 are scored, so that all have some context.
If the model asks for BOS, it replaces the first token of every window. So does llama.cpp's llama-perplexity (its
tools/perplexity/perplexity.cpp): the figures are comparable. Standard errors take the tokens as independent.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.model import Model
from edgellm.perplexity.softmax import Scores, distance, surprise
from edgellm.perplexity.windows import Windows, scored


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of `tokens` scored tokens, in `windows` windows of `ctx` out of `of`, and its standard error."""

    perplexity: float
    perplexity_error: float
    ctx: int
    windows: int
    of: int
    tokens: int


@dataclass(frozen=True)
class Comparison(Perplexity):
    """A model against a reference, with the standard errors of means.

    `ratio`: the perplexity over that of the reference. `kl`: the divergence of the reference's distribution of the
    next token from the model's, KL(reference || model) in nats: mean, median, 99th percentile and maximum over the
    tokens. `top1`: the share of tokens for which both have the same likeliest one.
    """

    reference_perplexity: float
    reference_perplexity_error: float
    ratio: float
    ratio_error: float
    kl: float
    kl_error: float
    kl_median: float
    kl_p99: float
    kl_max: float
    top1: float
    top1_error: float


def perplexity(
    model: Model, text: str, *, ctx: int | None = None, progress: Callable[[Perplexity], None] = lambda so_far: None
) -> Perplexity:
    """The perplexity of a model on a text; `progress` is called after each window, with that of the text so far.

    Nothing else may use the model meanwhile. `ctx` None: 512, or the model's context if that is less.

    Raises OptionError for a `ctx` that the model does not have, EdgeLLMError for a text of less than two windows and
    for a model whose logits are no healthy numbers.
    """
    windows = Windows([model], text, ctx)
    for scores in scored([model], windows, surprise):
        so_far = Perplexity(**_counts(windows, scores), **_exponential("perplexity", scores[0]))
        progress(so_far)
    return so_far


def compare(
    model: Model,
    reference: Model,
    text: str,
    *,
    ctx: int | None = None,
    progress: Callable[[Comparison], None] = lambda so_far: None,
) -> Comparison:
    """How far a model is from a reference on a text, in the tokens that the model's tokenizer makes of it.

    All else as for `perplexity`. Raises EdgeLLMError, too, if the models do not have the same vocabulary.
    """
    _check_vocabularies(model, reference)
    windows = Windows([model, reference], text, ctx)
    for scores in scored([model, reference], windows, distance):
        so_far = _comparison(windows, scores)
        progress(so_far)
    return so_far


def _comparison(windows: Windows, scores: Scores) -> Comparison:
    ours, theirs, kl, same_top = scores
    median, p99 = np.quantile(kl, (0.5, 0.99)).tolist()
    return Comparison(
        **_counts(windows, scores),
        **_exponential("perplexity", ours),
        **_exponential("reference_perplexity", theirs),
        # In pairs, so that the covariance counts: most of the variance of each is common to both.
        **_exponential("ratio", ours - theirs),
        **_mean("kl", kl),
        kl_median=median,
        kl_p99=p99,
        kl_max=float(kl.max()),
        **_mean("top1", same_top),
    )


def _counts(windows: Windows, scores: Scores) -> dict[str, Any]:
    tokens = scores.shape[1]
    return {"ctx": windows.ctx, "windows": tokens // windows.scored, "of": len(windows), "tokens": tokens}


def _mean(name: str, values: Scores) -> dict[str, Any]:
    """The mean under this name, and its standard error."""
    return {name: float(values.mean()), f"{name}_error": float(values.std(ddof=1)) / math.sqrt(len(values))}


def _exponential(name: str, values: Scores) -> dict[str, Any]:
    """The exponential of the mean under this name, and its standard error by the delta method."""
    mean, error = _mean(name, values).values()
    return {name: math.exp(mean), f"{name}_error": math.exp(mean) * error}


def _check_vocabularies(model: Model, reference: Model) -> None:
    ours, theirs = (each.tokenizer.vocabulary.texts for each in (model, reference))
    name, other = (printable(str(each.file.path), 400) for each in (model, reference))
    sizes, other_sizes = (model.engine.vocab, len(ours)), (reference.engine.vocab, len(theirs))
    difference = ""
    if sizes != other_sizes:
        difference = f"has {max(other_sizes):,} tokens, but {name} has {max(sizes):,}"
    elif ours != theirs:
        i = next(i for i in range(len(ours)) if ours[i] != theirs[i])
        difference = f"has {_quoted(theirs[i])} as token {i}, but {name} has {_quoted(ours[i])}"
    if difference:
        raise EdgeLLMError(f"{other}: {difference}; give a reference with the same vocabulary")


def _quoted(token: bytes) -> str:
    return f'"{printable(token.decode(errors="replace"), 40)}"'
