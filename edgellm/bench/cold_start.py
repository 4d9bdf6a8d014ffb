"""Cold start: time to first token from the start of a process, with a warm page cache and compiled kernels."""

import tempfile
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from edgellm.bench.baseline import Baseline
from edgellm.bench.options import BenchOptions
from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path
from edgellm.process.spawn import exit_reason, start, stderr_tail
from edgellm.text.tokenizer import Tokenizer

PROMPT_TOKENS = 32


def prompt_of(tokenizer: Tokenizer, tokens: int) -> str:
    """The shortest of "a", "a a", "a a a", ... that has at least `tokens` tokens."""
    text = "a"
    while len(tokenizer.encode(text, add_special=True)) < tokens and len(text) < 4 * tokens:
        text += " a"
    return text


def time_cold_start(path: Path, options: BenchOptions, threads: int, prompt: str) -> float:
    """Seconds from the start of `edgellm generate` to the first byte of its output. Raises EdgeLLMError."""
    flags = {"-p": prompt, "-n": 1, "--temp": 0, "--threads": threads, "--kv-type": options.kv_type}
    flags["--gpu-layers"] = options.gpu_layers
    if options.n_cpu_moe is not None:
        flags["--n-cpu-moe"] = options.n_cpu_moe
    words = [str(word) for flag in flags.items() for word in flag] + ["--cpu-moe"] * options.cpu_moe
    with tempfile.TemporaryFile() as log:
        began = perf_counter()
        # --jsonl, as a token may have no text
        process = start(log, "edgellm", "generate", str(path.absolute()), "--jsonl", *words)
        assert process.stdin and process.stdout
        try:
            process.stdin.close()
            first = process.stdout.read(1)
            seconds = perf_counter() - began
            process.stdout.read()
            process.wait()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        if not first:
            end = f"{exit_reason(process.returncode)} ({stderr_tail(log)})"
            raise EdgeLLMError(f"{shown_path(path)}: edgellm generate {end}; run it to see more")
    return seconds


def time_baseline_cold_start(path: Path, options: BenchOptions, threads: int, repacked: bool) -> float:
    """Seconds from the start of a process to llama.cpp's logits after a prompt of as many tokens. Raises EdgeLLMError.

    Tokenizing the prompt and printing a token are not counted, in llama.cpp's favour.
    """
    began = perf_counter()
    short = replace(options, prompt_tokens=PROMPT_TOKENS, tokens=0, depth=0, parallel=1)
    with Baseline(path, short, threads, repacked) as baseline:
        baseline.prefill(PROMPT_TOKENS)
        return perf_counter() - began
