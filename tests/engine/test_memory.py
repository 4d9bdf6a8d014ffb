"""Weights stay in the map: memory of the process itself grows by activations and KV pages alone."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kquants.kv_layout import PAGE, PAGE_SIZES, layer_page_bytes
from support.model_file import ModelFile

LARGE: dict[str, Any] = {"width": 1024, "layers": 5, "heads": 16, "kv_heads": 4, "ffn": 3584, "types": "Q8_0"}
LARGE |= {"vocab": 4096, "context_length": 4096, "tied": False}
PROMPT, NEW = 700, 40

# Anonymous memory is what is not mapped from a file; a thread looks for its peak.
SCRIPT = """
import json, re, sys, threading
from pathlib import Path
from edgellm import Model, Tokenizer

def anonymous():
    return 1024 * int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

path, kv_type, prompt, new = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
tokenizer = Tokenizer.open(path)
base = peak = anonymous()
done = threading.Event()

def watch():
    global peak
    while not done.wait(0.002):
        peak = max(peak, anonymous())

thread = threading.Thread(target=watch)
thread.start()
with Model.open(path, threads=2, kv_type=kv_type) as model:
    used = len(model.generate("z" * prompt, max_tokens=new, temp=0, logit_bias={2: -float("inf")}).tokens)
    opened = anonymous()
    model.logits([5] * prompt)
    for _ in range(20):
        model.logits([5, 6, 7])
    after = anonymous()
done.set()
thread.join()
print(json.dumps({"base": base, "peak": peak, "used": used, "opened": opened, "after": after, "closed": anonymous()}))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="anonymous memory is read from /proc")
@pytest.mark.parametrize("kv_type", PAGE_SIZES)
def test_memory_is_activations_and_pages(model_file: ModelFile, kv_type: str) -> None:
    path = model_file(**LARGE)
    command = [sys.executable, "-c", SCRIPT, path, kv_type, str(PROMPT), str(NEW)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    memory = json.loads(done.stdout)
    assert memory["used"] == NEW
    page = LARGE["layers"] * layer_page_bytes(LARGE["kv_heads"], 64, 64, kv_type)
    pages = 2 * -(-(PROMPT + NEW + 2) // PAGE) * page  # of the prompt and of the logits
    logits = PROMPT * LARGE["vocab"] * 4
    growth = memory["peak"] - memory["base"]
    print(f"\n{kv_type}: grew by {growth / 1e6:.0f} MB, pages {pages / 1e6:.0f}, file {path.stat().st_size / 1e6:.0f}")
    assert growth <= 100e6 + pages
    assert growth <= path.stat().st_size + pages + logits, "the weights were copied"
    assert memory["closed"] < memory["base"] + 20e6, "close gave the memory back"
