"""Time to first token, from the start of a process; page cache and compiled code are warm."""

import tempfile
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from edgellm.bench.peer import Peer
from edgellm.bench.setting import Setting
from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.process.spawn import exit_reason, start, stderr_tail
from edgellm.text.tokenizer import Tokenizer

PROMPT = 32
"""Tokens of the prompt."""


def cold_prompt(tokenizer: Tokenizer, tokens: int) -> str:
    """The shortest of "a", "a a", "a a a", ... that makes at least so many tokens."""
    text = "a"
    while len(tokenizer.encode(text, add_special=True)) < tokens and len(text) < 4 * tokens:
        text += " a"
    return text


def cold_start(path: Path, setting: Setting, threads: int, prompt: str) -> float:
    """Seconds from the start of `edgellm generate` to the first byte of its output. Raises EdgeLLMError."""
    options = {"-p": prompt, "-n": 1, "--temp": 0, "--threads": threads, "--kv-type": setting.kv_type}
    options["--gpu-layers"] = setting.gpu_layers
    words = [str(word) for option in options.items() for word in option]
    with tempfile.TemporaryFile() as log:
        began = perf_counter()
        # --jsonl, as not every token has text
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
            said = f"{exit_reason(process.returncode)} ({stderr_tail(log)})"
            raise EdgeLLMError(f"{printable(str(path), 400)}: edgellm generate {said}; run it to see more")
    return seconds


def peer_cold_start(path: Path, setting: Setting, threads: int, repacked: bool) -> float:
    """Seconds from the start of a process to llama.cpp's logits after as long a prompt. Raises EdgeLLMError.

    What it would still take to tokenize the prompt and to write a token is given to it.
    """
    began = perf_counter()
    short = replace(setting, prompt_tokens=PROMPT, tokens=0, depth=0, parallel=1)
    with Peer(path, short, threads, repacked) as peer:
        peer.prefill(PROMPT)
        return perf_counter() - began
