"""What a fresh process has loaded."""

import subprocess
import sys

from support import ROOT

HEAVY = {
    "numpy",
    "numba",
    "llvmlite",
    "gguf",
    "llama_cpp",
    "tokenizers",
    "jinja2",
    "psutil",
    "starlette",
    "uvicorn",
    "ray",
    "requests",
    "textual",
    "wgpu",
} | {
    *("safetensors", "yaml", "huggingface_hub", "httpx2", "filelock"),
}


def loaded(code: str) -> set[str]:
    """The modules that a fresh process has loaded after `code`, which may end in SystemExit."""
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stderr.splitlines()[-1].split())
