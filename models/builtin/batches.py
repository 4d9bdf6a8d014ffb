"""Batches of texts of similar length, to keep padding small."""

import random
from collections.abc import Iterator
from itertools import islice

import torch
from tokenizers import Tokenizer
from torch import Tensor

from conversations import Conversations, encoded

POOL = 2048
LONGEST = 768


def batches(tokenizer: Tokenizer, tokens: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """An endless stream of ids and targets, each [rows, length of the longest], about `tokens` tokens per batch."""
    rng = random.Random(seed)
    texts = iter(Conversations(seed))
    while True:
        pool = sorted((encoded(spans, tokenizer) for spans in islice(texts, POOL)), key=lambda text: len(text[0]))
        cut = list(_cut([text for text in pool if len(text[0]) <= LONGEST], tokens))
        rng.shuffle(cut)
        yield from map(_padded, cut)


def _cut(pool: list[tuple[list[int], list[int]]], tokens: int) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Split the pool, sorted by length, into batches of at most `tokens` tokens including padding."""
    run: list[tuple[list[int], list[int]]] = []
    for text in pool:
        if run and (len(run) + 1) * len(text[0]) > tokens:
            yield run
            run = []
        run.append(text)
    yield run


def _padded(run: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
    longest = max(len(ids) for ids, _ in run)
    ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in run])
    return ids, torch.tensor([targets + [-1] * (longest - len(targets)) for _, targets in run])
