"""Perplexity and KL divergence of a model on a text, with standard errors.

The text is cut into windows of `ctx` tokens that do not overlap; tokens after the last whole window are not used. Each
window is computed from an empty context, and the tokens after position ctx // 2 are scored, so that all have some
context. If the model asks for BOS, it replaces the first token of every window. llama.cpp's llama-perplexity does the
same (tools/perplexity/perplexity.cpp), so the figures are comparable. Standard errors assume independent tokens.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, shown_path
from edgellm.model import Model
from edgellm.perplexity.metrics import Values, compared, negative_log_likelihood
from edgellm.perplexity.windows import Windows, evaluate_windows


@dataclass(frozen=True)
class Perplexity:
    """The perplexity and its standard error, of `tokens` scored tokens in `windows` of `of` windows of `ctx` tokens."""

    perplexity: float
    perplexity_error: float
    ctx: int
    windows: int
    of: int
    tokens: int


@dataclass(frozen=True)
class Comparison(Perplexity):
    """A model compared with a reference; each mean has its standard error.

    `ratio`: the perplexity divided by that of the reference. `kl`: the divergence KL(reference || model) of the
    distributions of the next token, in nats: mean, median, 99th percentile and maximum over the tokens. `top1`: the
    share of tokens for which both models have the same most likely token.
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
    """The perplexity of a model on a text. `progress` is called after each window, with the result so far.

    Nothing else may use the model meanwhile. `ctx` defaults to 512, or to the model's context if that is less.

    Raises OptionError for a `ctx` above the model's, EdgeLLMError for a text of less than two windows and for a model
    with NaN or infinite logits.
    """
    windows = Windows([model], text, ctx)
    for values in evaluate_windows([model], windows, negative_log_likelihood):
        so_far = Perplexity(**_counts(windows, values), **_exponential("perplexity", values[0]))
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
    """Compare a model with a reference on a text, tokenized by the model's tokenizer.

    Parameters and errors are those of `perplexity`. Also raises EdgeLLMError if the vocabularies differ.
    """
    _check_vocabularies(model, reference)
    windows = Windows([model, reference], text, ctx)
    for values in evaluate_windows([model, reference], windows, compared):
        so_far = _comparison(windows, values)
        progress(so_far)
    return so_far


def _comparison(windows: Windows, values: Values) -> Comparison:
    nll, reference_nll, kl, same_top = values
    median, p99 = np.quantile(kl, (0.5, 0.99)).tolist()
    return Comparison(
        **_counts(windows, values),
        **_exponential("perplexity", nll),
        **_exponential("reference_perplexity", reference_nll),
        # Of the paired differences, so that the covariance counts: most of the variance is common to both.
        **_exponential("ratio", nll - reference_nll),
        **_mean("kl", kl),
        kl_median=median,
        kl_p99=p99,
        kl_max=float(kl.max()),
        **_mean("top1", same_top),
    )


def _counts(windows: Windows, values: Values) -> dict[str, Any]:
    tokens = values.shape[1]
    return {"ctx": windows.ctx, "windows": tokens // windows.scored, "of": len(windows), "tokens": tokens}


def _mean(name: str, values: Values) -> dict[str, Any]:
    """The mean, under this name, and its standard error."""
    return {name: float(values.mean()), f"{name}_error": float(values.std(ddof=1)) / math.sqrt(len(values))}


def _exponential(name: str, values: Values) -> dict[str, Any]:
    """The exponential of the mean, under this name, and its standard error by the delta method."""
    mean, error = _mean(name, values).values()
    return {name: math.exp(mean), f"{name}_error": math.exp(mean) * error}


def _check_vocabularies(model: Model, reference: Model) -> None:
    ours, theirs = (each.tokenizer.vocabulary.texts for each in (model, reference))
    name, other = (shown_path(each.file.path) for each in (model, reference))
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
