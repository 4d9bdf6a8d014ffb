"""`edgellm devices`: the instruction sets of the CPU."""

import json
import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("features", "told"),
    [
        ("+ssse3,+avx,+avx2,+fma,+f16c", ["AVX2"]),
        ("+ssse3,+avx2,+avx512f,+avx512bw,+avx512vl,+avx512vnni,+amx-tile,+amx-int8", ["AVX-512 VNNI", "AMX"]),
    ],
)
def test_the_cpu_features_that_kernels_use(features: str, told: list[str]) -> None:
    pretended = {**os.environ, "NUMBA_CPU_NAME": "sapphirerapids", "NUMBA_CPU_FEATURES": features}
    command = [sys.executable, "-m", "edgellm", "devices", "--json"]
    done = subprocess.run(command, env=pretended, capture_output=True, check=True)
    assert json.loads(done.stdout)[0]["features"] == (told if "AMX" not in told or _amx() else told[:1])


def _amx() -> bool:
    """Whether this process may use AMX tiles on the real CPU."""
    from kquants.compiler.host import cpu_features

    return sys.platform == "linux" and "+amx-tile" in cpu_features()
