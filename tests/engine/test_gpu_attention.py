"""Attention on a GPU against NumPy: windows, soft caps, sinks, positions of each kind, norms of q and k."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm.arch.blocks import Attention, Layer, Norm
from edgellm.arch.positions import AttentionTemperature, Rope, RopeType
from edgellm.engine.kv_pages import FREED
from edgellm.engine.limits import BatchLimits
from edgellm.engine.webgpu.attention import AttentionLowering
from edgellm.engine.webgpu.batch_layout import lay_out, page_ids, position_rows
from edgellm.engine.webgpu.blocks import GPUAttention, QKVNorms, has_projection_norms
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.kv_pages import GPUKVPages
from edgellm.engine.webgpu.offloaded import OffloadedBlocks
from edgellm.engine.webgpu.row_ops import RowOps
from edgellm.engine.webgpu.scratch import Scratch
from kquants.kv_layout import PAGE
from support.gpus import adapter
from support.tensors import float_tensor

pytestmark = pytest.mark.gpu

Array = NDArray[Any]
NOTHING: Any = None
HALF, WHOLE = 8, 16
"""Rotated values of a head of 16: some, or all."""


def rope(dims: int, kind: RopeType) -> Rope:
    return Rope(10000.0 ** -(np.arange(0, dims, 2) / dims), 1.25, kind)


def norm(seed: int, eps: float, width: int = 16) -> Norm:
    weight = 1 + np.random.default_rng(seed).standard_normal(width).astype(np.float32) / 4
    return Norm(float_tensor("norm", weight), None, eps)


PLAIN = Attention(
    heads=4, kv_heads=2, key_dim=16, value_dim=16, rope=None, scale=0.3, q=NOTHING, k=NOTHING, v=NOTHING, output=NOTHING
)
"""Attention without positions; its projections are not part of these tests."""

LONG = replace(PLAIN, key_dim=512, value_dim=512, scale=0.05)
SINKS = float_tensor("sinks", np.array([0.5, -1.0, 30.0, 2.0], np.float32))
CASES = {
    "no rope": PLAIN,
    "rope": replace(PLAIN, rope=rope(WHOLE, RopeType.NEOX)),
    "partial rope": replace(PLAIN, rope=rope(HALF, RopeType.NEOX)),
    "partial rope of neighbours": replace(PLAIN, rope=rope(HALF, RopeType.NORM)),
    "norms of heads": replace(PLAIN, rope=rope(HALF, RopeType.NEOX), q_norm=norm(1, 1e-5), k_norm=norm(2, 0.5)),
    "norms after rope": replace(
        PLAIN, rope=rope(HALF, RopeType.NEOX), q_norm=norm(1, 1e-5), k_norm=norm(2, 0.5), norm_after_rope=True
    ),
    "norms of projections": replace(PLAIN, q_norm=norm(1, 1e-5, 64), k_norm=norm(2, 0.5, 32)),
    "norms of values": replace(PLAIN, v_norm=Norm(None, None, 0.5)),
    "norms of all heads": replace(PLAIN, q_norm=norm(1, 1e-5), k_norm=norm(2, 0.5), v_norm=norm(3, 0.1)),
    "temperature": replace(PLAIN, rope=rope(HALF, RopeType.NORM), temperature=AttentionTemperature(0.7, 50)),
    "temperature alone": replace(PLAIN, temperature=AttentionTemperature(0.7, 50)),
    "window below a page": replace(PLAIN, window=7),
    "window of one cell": replace(PLAIN, window=1),
    "window above a page": replace(PLAIN, window=PAGE + 9),
    "soft cap": replace(PLAIN, scale=3.0, soft_cap=4.0),
    "sinks": replace(PLAIN, sinks=SINKS),
    "all at once": replace(PLAIN, rope=rope(WHOLE, RopeType.NORM), window=PAGE, scale=2.0, soft_cap=9.0, sinks=SINKS),
    "heads of 512": replace(LONG, rope=rope(HALF, RopeType.NEOX), window=PAGE + 9),
    "3 heads of 260 for one": replace(LONG, key_dim=260, value_dim=260, heads=3, kv_heads=1),
    "9 heads of 512 for one": replace(LONG, heads=9, kv_heads=1, sinks=float_tensor("sinks", np.arange(9))),
    "9 heads for one": replace(PLAIN, heads=9, kv_heads=1, window=40),
}


@pytest.fixture(scope="module", params=[(), ("subgroups",)], ids=["all features", "no subgroups"])
def gpu(request: pytest.FixtureRequest) -> Iterator[GPUContext]:
    gpu = GPUContext(adapter(), masked=request.param)
    yield gpu
    gpu.close()


@dataclass
class Truth:
    """Attention in float64, for the rows of one sequence after another."""

    settings: Attention
    keys: list[Array] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)

    def head(self, x: Array, own: Norm | None, position: int) -> Array:
        """A head of q or k, normed and rotated."""
        steps = [lambda x: self.normed(x, own), lambda x: self.rotated(x, position)]
        for step in reversed(steps) if self.settings.norm_after_rope else steps:
            x = step(x)
        return x

    def normed(self, x: Array, own: Norm | None) -> Array:
        if own is None or (own.weight and own.weight.size > len(x)):
            return x
        return x / np.sqrt((x**2).mean() + own.eps) * (own.weight.data.view(np.float32) if own.weight else 1)

    def rotated(self, x: Array, position: int) -> Array:
        given = self.settings.rope
        if given is None:
            return x
        n, x = len(given.frequencies), x.copy()
        first = np.arange(n) if given.rope_type is RopeType.NEOX else 2 * np.arange(n)
        second = first + (n if given.rope_type is RopeType.NEOX else 1)
        turned = (x[first] + 1j * x[second]) * given.magnitude * np.exp(1j * position * given.frequencies)
        x[first], x[second] = turned.real, turned.imag
        return x

    def row(self, qkv: Array) -> Array:
        """The result of the next row of the sequence."""
        s, position, qkv = self.settings, len(self.keys), qkv.astype(np.float64)
        if has_projection_norms(s):
            q, k, v = np.split(qkv, [s.q_width, s.q_width + s.k_width])
            qkv = np.concatenate([self.normed(q, s.q_norm), self.normed(k, s.k_norm), v])
        heads = qkv.reshape(-1, s.key_dim)
        factor = 1 + s.temperature.scale * np.log(1 + position // 50) if s.temperature else 1
        q = [factor * self.head(x, s.q_norm, position) for x in heads[: s.heads]]
        k = [self.head(x, s.k_norm, position) for x in heads[s.heads : s.heads + s.kv_heads]]
        self.keys.append(np.stack(k))
        self.values.append(np.stack([self.normed(x, s.v_norm) for x in heads[s.heads + s.kv_heads :]]))
        first = max(0, position + 1 - (s.window or position + 1))
        keys, values = np.stack(self.keys[first:]), np.stack(self.values[first:])
        sinks: Any = [] if s.sinks is None else s.sinks.data.view(np.float32)
        results = []
        for h, own in enumerate(q):
            g = h // (s.heads // s.kv_heads)
            scores = keys[:, g] @ own * s.scale
            if s.soft_cap:
                scores = s.soft_cap * np.tanh(scores / s.soft_cap)
            weights = np.exp(np.append(scores, sinks[h : h + 1]) - max(scores.max(), *sinks[h : h + 1], -np.inf))
            results.append(weights[: len(scores)] @ values[:, g] / weights.sum())
        return np.concatenate(results)


class Layer1:
    """An attention layer on a GPU, whose q, k and v are written there; one sequence."""

    def __init__(self, gpu: GPUContext, settings: Attention) -> None:
        self.gpu, self.settings, self.length, self.pages = gpu, settings, 0, list[int]()
        model: Any = SimpleNamespace(width=32, vocab=32, layers=[Layer(settings, None)])
        self.tables = model.position_tables = [each for each in (settings.temperature, settings.rope) if each]
        model.kv_groups = (settings.window,)
        blocks, limits = OffloadedBlocks(model, {0: settings}, {}, {}, False), BatchLimits(128, 512, "f32")
        self.scratch = Scratch(gpu, blocks, limits)
        self.kv, self.kinds = GPUKVPages(gpu, blocks, limits), blocks.row_kinds
        self.lowering = AttentionLowering(gpu, blocks, self.scratch, RowOps(gpu, 32, self.scratch), "f32")
        given = settings.q_norm, settings.k_norm, settings.v_norm
        norms = QKVNorms.of(gpu, given, 16) if any(given) else None
        sinks = gpu.buffer(64, "sinks")
        if settings.sinks:
            gpu.write(sinks, settings.sinks.data)
        whole = has_projection_norms(settings)
        self.block = GPUAttention(
            settings=settings,
            head_norms=None if whole else norms,
            projection_norms=norms if whole else None,
            sinks=sinks if settings.sinks else None,
            norm=None,
            qkv=[],
            qkv_bias=None,
            gate=[],
            gate_bias=None,
            output=[],
            output_bias=None,
            post_norm=None,
        )
        self.kv.ensure_pages(0, 8)

    def compute(self, qkv: Array) -> Array:
        """The results of the next rows."""
        rows, start = len(qkv), self.length
        cells = list(range(start, start + rows))
        self.length += rows
        seen = start + 1 - (self.settings.window or start + 1)
        self.pages = [FREED if (p + 1) * PAGE <= seen else 7 - p for p in range(-(-self.length // PAGE))]
        given = {"lengths": [rows], "tables": [[self.pages]], "cells": cells, "first": [0] * rows, "rows": rows}
        values = [table.values(np.array(cells)) for table in self.tables]
        batch: Any = SimpleNamespace(
            **given, position_values=values, visible=[n + 1 for n in cells], wanted=[], outputs=0
        )
        layout, s, gpu = lay_out(batch, self.kinds, s_rows := self.scratch.widths.split_rows), self.scratch, self.gpu
        assert s_rows == 16
        gpu.write(s.batches[0], layout.headers[0])
        gpu.write(s.tables[0], page_ids(batch, 0))
        for key, buffer in s.positions.items():
            gpu.write(buffer, position_rows(batch, key))
        gpu.write(s.qkv.buffer, qkv)
        mixed, width = s.mixed[self.settings.attention_width], self.settings.attention_width
        steps = self.lowering.dispatches(self.block, self.kv.buffers(0), single=rows == 1)
        found = gpu.fetch(steps, layout.sizes, mixed.buffer, 4 * rows * mixed.width)
        return found.reshape(rows, mixed.width)[:, :width]


@pytest.mark.parametrize("name", CASES)
def test_attention(gpu: GPUContext, name: str) -> None:
    """A prompt in chunks that cross windows and pages, a few rows at once, and then row by row."""
    settings = CASES[name]
    layer, truth, random = Layer1(gpu, settings), Truth(settings), np.random.default_rng(5)
    for rows in (5, 100, 20, 16, PAGE - 1, 1, 1, 1, 4, 1):
        width = settings.q_width + settings.k_width + settings.v_width
        qkv = random.standard_normal((rows, width)).astype(np.float32)
        wanted = np.stack([truth.row(row) for row in qkv])
        found = layer.compute(qkv)
        assert np.abs(found - wanted).max() < 1e-5
