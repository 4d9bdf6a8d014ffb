"""All tests of single kernels once more, compiled for lesser CPUs than this one."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

KERNEL_TESTS = [f"test_kquants_{part}.py" for part in ("formats", "matmul", "elementwise", "attention", "bandwidth")]
KERNEL_TESTS += ["test_formats.py", "-k", "not chunks and not refused_by_name"]
# v3 is AVX2 with FMA and F16C; v2 has none of them, nor instructions for half floats or fused products.
NEEDED = {"x86-64-v2": ("sse4.2",), "x86-64-v3": ("avx2", "fma", "f16c")}


@pytest.mark.parametrize("cpu", NEEDED)
def test_kernels_are_right_on_a_lesser_cpu(cpu: str) -> None:
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("pretends to be a lesser x86 CPU")
    host = llvm.get_host_cpu_features()
    if not all(host.get(feature) for feature in NEEDED[cpu]):
        pytest.skip(f"this CPU is less than {cpu}")
    environment = {**os.environ, "NUMBA_CPU_NAME": cpu}
    environment.pop("NUMBA_CPU_FEATURES", None)
    # A pytest of its own: what a process has compiled for stays with it.
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *KERNEL_TESTS]
    child = subprocess.run(
        command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stdout[-2000:] + child.stderr[-2000:]
