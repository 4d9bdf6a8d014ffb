"""The report of `edgellm bench`: its bars, and a table within 80 columns."""

from typing import Any

import click
import pytest

from edgellm.cli.bench_report import PLAIN, Glyphs, bar, report


def test_a_bar_by_hand() -> None:
    marks = PLAIN
    assert bar([5, 6, 8], 10, 10, 11, marks) == "=====oO-o |"
    assert bar([10], 10, None, 11, marks) == "==========O"
    assert bar([2, 2, 2], 10, 4, 11, marks) == "==O |      "


@pytest.mark.parametrize("fast", [1.0, 123.4, 999_999.0])
def test_the_report_fits_80_columns(fast: float) -> None:
    def side(scale: float) -> dict[str, Any]:
        rates = [fast * scale, fast * scale / 3, fast * scale / 2]
        half = {"tps": rates[2], "min": rates[1], "max": rates[0], "peak_tps": fast}
        shares = {"int8_share": 0.5, "int8_per_s": 1e12, "mbu": 0.5}
        return {
            "prefill": half | shares,
            "decode": half | shares,
            "rounds": dict.fromkeys(("prefill", "decode"), rates),
        }

    other = side(0.8) | {"engine": "llama.cpp", "version": "0.3.36", "repacked": False}
    ratios = {half: {"median": 3.33, "min": 1.25, "max": 9.99} for half in ("prefill", "decode")}
    run = side(1.0) | {"threads": 16, "against": other, "ratio": ratios}
    run |= {"bandwidth": 1.615e11, "int8_peak": 8.5e12}
    run["rounds"] |= {"bandwidth": [1.23e11, 2e11], "int8_peak": [9e12, 8e12], "undisturbed": [False, False]}
    top = {"model": "m.gguf", "prompt_tokens": 512, "tokens": 64, "parallel": 8, "depth": 4096, "kv_type": "f16"}
    top["kv_bytes_per_token"] = 64
    lines = [click.unstyle(line) for line in report(top | {"runs": [run]}, Glyphs())]
    assert max(map(len, lines)) <= 80
    assert lines[0] == "m.gguf · prompt 512 · decode 64 · 8 at once · depth 4,096 · f16 KV"
    assert next(report(top | {"runs": [], "kv_bytes_per_token": 0}, Glyphs())).endswith(" · no KV cache")
    assert "this machine: memory 161.5 (123.0–200.0) GB/s, int8 8,500 (8,000–9,000) GMAC/s" in lines
    assert "another program took the CPU in 2 of 2 rounds; measure again without it" in lines
    assert any(line.startswith("decode: • each round, ● their median, ▏ the memory's bandwidth: ") for line in lines)
    assert sum("llama.cpp" in line for line in lines) == 4  # the table's head, two bars, the note
    assert Glyphs.for_encoding("utf-8") == Glyphs()
    plain = "\n".join(report(top | {"runs": [run]}, Glyphs.for_encoding("ascii")))
    assert click.unstyle(plain).isascii()
