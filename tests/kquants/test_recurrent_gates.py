"""What scans read and what follows them: normed q and k, gates, gated norms, split heads; against float64."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants.records import DeltaInputsOp, GatedNormOp, MambaInputsOp, SplitGateOp
from support.activation_rows import ActivationRows, in_any_chunks
from support.kernels import batch_record, fenced, op_record, run_op, same_bits
from support.quantized_targets import Targets

F32 = np.float32
Array = NDArray[Any]
ROWS = 3


def random_rows(n: int, scale: float = 1.0) -> Array:
    return (scale * np.random.default_rng(n).standard_normal((ROWS, n))).astype(F32)


def close(found: Array, wanted: Array) -> bool:
    return np.allclose(found, wanted, rtol=4e-6, atol=1e-30, equal_nan=True)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def decays(alpha: Array, dt_bias: Array, a: Array) -> tuple[Array, Array]:
    """(dt, decay) in float64."""
    dt = np.logaddexp(0, alpha.astype(np.float64) + dt_bias)
    return dt, np.exp(a * dt)


@pytest.mark.parametrize("heads, key_heads, key_dim", [(32, 16, 128), (18, 6, 40), (1, 1, 7)])
@pytest.mark.parametrize("fused", [False, True])
def test_inputs_of_the_delta_rule(heads: int, key_heads: int, key_dim: int, fused: bool) -> None:
    width, group, eps = 2 * key_heads * key_dim, heads // key_heads, F32(1e-6)
    qkv, both, bias = random_rows(width + 16), random_rows(2 * heads, 3), random_rows(heads)[0]
    a = -np.abs(random_rows(heads)[1])
    # Fused: for each key head the betas of its heads, then their alphas. Otherwise all betas come first.
    alpha_offset, *groups = (4 * group, group, 2 * group) if fused else (4 * heads, heads, heads)
    parts = both.reshape(ROWS, key_heads, 2, group) if fused else both.reshape(ROWS, 1, 2, heads)
    beta, alpha = (parts[:, :, i].reshape(ROWS, heads) for i in range(2))
    units = ROWS * (key_heads + -(-heads // 16))
    fenced_bias, fenced_a = fenced(bias), fenced(a)

    def run(chunk: int) -> list[ActivationRows]:
        x, given, gates = ActivationRows(qkv), ActivationRows(both), ActivationRows(np.zeros((ROWS, 2 * heads), F32))
        rows = (given.array, given.nbytes, alpha_offset, given.array, given.nbytes, *groups)
        sizes = (x.array, x.nbytes, key_heads, key_dim, float(eps))
        op = DeltaInputsOp(*sizes, *rows, fenced_a, fenced_bias, heads, gates.array, gates.nbytes)
        run_op(op_record("delta_inputs", op), batch_record(ROWS), units, scratch_bytes=64, chunk=chunk)
        return [x, gates]

    found, gates = in_any_chunks(run, units)
    q, k = qkv[:, :width].astype(np.float64).reshape(ROWS, 2, key_heads, key_dim).swapaxes(0, 1)
    unit_q, unit_k = (v / np.sqrt((v**2).sum(axis=-1, keepdims=True) + eps) for v in (q, k))
    wanted = np.stack([unit_q / np.sqrt(key_dim), unit_k], axis=1).reshape(ROWS, width)
    assert close(found[:, :width], wanted)
    assert same_bits(found[:, width:], qkv[:, width:]), "v stays as it is"
    assert close(gates[:, :heads], decays(alpha, bias, a)[1])
    assert close(gates[:, heads:], sigmoid(beta))


@pytest.mark.parametrize("heads", [128, 20, 1])
def test_gates_of_mamba(heads: int) -> None:
    dt, bias, a = random_rows(heads, 3), random_rows(heads)[0], -np.abs(random_rows(heads)[1])
    fenced_bias, fenced_a = fenced(bias), fenced(a)

    def run(chunk: int) -> list[ActivationRows]:
        x, gates = ActivationRows(dt), ActivationRows(np.zeros((ROWS, 2 * heads), F32))
        op = MambaInputsOp(x.array, x.nbytes, fenced_bias, fenced_a, heads, gates.array, gates.nbytes)
        run_op(op_record("mamba_inputs", op), batch_record(ROWS), ROWS, chunk=chunk)
        return [gates]

    (gates,) = in_any_chunks(run, ROWS)
    step, decay = decays(dt, bias, a)
    assert close(gates[:, :heads], decay)
    assert close(gates[:, heads:], step)


def test_odd_gates_are_those_of_the_formula() -> None:
    dt = np.array([[np.nan, np.inf, -np.inf, 3e38, -3e38, 0]], F32)
    a, bias = np.full(6, -1, F32), np.zeros(6, F32)
    x, gates = ActivationRows(dt), ActivationRows(np.zeros((1, 12), F32))
    op = MambaInputsOp(x.array, x.nbytes, bias, a, 6, gates.array, gates.nbytes)
    run_op(op_record("mamba_inputs", op), batch_record(1), 1)
    decay, step = np.split(gates.values[0], 2)
    assert close(decay, np.array([np.nan, 0, 1, 0, 1, 0.5]))
    assert close(step, np.array([np.nan, np.inf, 0, 3e38, 0, np.log(2)]))


@pytest.mark.parametrize(("gate_first", "silu"), [(False, True), (True, True), (False, False)])
@pytest.mark.parametrize("weights", ["none", "shared", "of each group"])
@pytest.mark.parametrize("groups, group_dim, piece", [(4, 128, 256), (3, 128, 256), (2, 512, 512), (3, 40, 120)])
def test_gated_norms(groups: int, group_dim: int, piece: int, weights: str, gate_first: bool, silu: bool) -> None:
    n, eps = groups * group_dim, F32(1e-5)
    x, z, weight = random_rows(n), random_rows(n, 2)[::-1].copy(), random_rows(n)[0]
    weight = weight if weights == "of each group" else weight[:group_dim]
    fenced_weight, units = fenced(weight), ROWS * -(-n // piece)

    def run(chunk: int) -> list[ActivationRows]:
        given, gate, h = ActivationRows(x), ActivationRows(z), ActivationRows(np.zeros_like(x))
        to = Targets(ROWS, n)
        of = (fenced_weight if weights != "none" else 0, group_dim if weights == "of each group" else 0)
        sizes = (groups, group_dim, piece, float(eps), int(gate_first), int(silu))
        rows = (given.array, given.nbytes, gate.array, gate.nbytes)
        for target in (h.array, 0):  # the same quantized rows without h
            op = GatedNormOp(*rows, *of, *sizes, target, h.nbytes, to.q8, to.super_q8)
            run_op(op_record("gated_norm", op, per_row=1), batch_record(ROWS), units, scratch_bytes=4 * n, chunk=chunk)
            to.check(h.values)
        return [h]

    (found,) = in_any_chunks(run, units)
    v, gates = x.astype(np.float64), z * sigmoid(z) if silu else sigmoid(z)
    v = (v * gates if gate_first else v).reshape(ROWS, groups, group_dim)
    if weights != "none":
        v = v / np.sqrt((v**2).mean(axis=-1, keepdims=True) + eps)
        v = v * (weight.reshape(groups, group_dim) if weights == "of each group" else weight)
    v = v.reshape(ROWS, n)
    assert close(found, v if gate_first else v * gates)


def test_heads_and_their_gates_are_split() -> None:
    heads, head_dim = 3, 24
    x = ActivationRows(random_rows(2 * heads * head_dim))
    q, gate = (ActivationRows(np.zeros((ROWS, heads * head_dim), F32)) for _ in range(2))
    op = SplitGateOp(x.array, x.nbytes, heads, head_dim, q.array, q.nbytes, gate.array, gate.nbytes)
    run_op(op_record("split_gate", op), batch_record(ROWS), ROWS * heads)
    both = x.values.reshape(ROWS, heads, 2, head_dim)
    for i, rows in enumerate((q, gate)):
        rows.check()
        assert same_bits(rows.values, both[:, :, i].reshape(ROWS, -1))
