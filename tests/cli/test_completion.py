"""Shell completion, by a real bash that has read the script."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgellm.models.pull_records import FileRecord, write_record
from support import ROOT
from support.auxiliary_files import auxiliary_file
from support.make_gguf import write_model

Complete = Callable[..., list[str]]
EVIL = ["zz$(touch X)", "zz`touch X`", "zz';touch X;'", 'zz";touch X;"', "zz*,&|<>", "zz\\$(touch X)"]


def edgellm(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "edgellm", *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str) -> None:
    script = edgellm("completion", shell)
    assert "_EDGELLM_COMPLETE" in script
    assert f"{shell}_complete" in script
    assert 'split ","' not in script, "fish would cut names with commas"


@pytest.fixture
def complete(tmp_path: Path) -> Complete:
    """The completions of bash for a line, in a folder with one model."""
    if not (bash := shutil.which("bash")):
        pytest.skip("needs bash")
    program = tmp_path / "bin" / "edgellm"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgellm "$@"\n')
    program.chmod(0o755)
    (tmp_path / "models").mkdir()
    write_model(tmp_path / "models" / "tiny-model.gguf")
    (tmp_path / "script").write_text(edgellm("completion", "bash"))

    for name in (*EVIL, "zz\nplain,touch X", "zz\x1b[2J"):
        write_model(tmp_path / "models" / f"{name}.gguf", types="F32", layers=1, width=64, heads=2, kv_heads=1)

    def offered(*words: str, then: str = 'printf "%s\\n" "${COMPREPLY[@]}"') -> list[str]:
        quoted = " ".join(f"'{word}'" for word in words)
        line = f"source ./script; compopt() {{ :; }}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
        line += f"_edgellm_completion edgellm; {then}"
        path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
        home = {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "EDGELLM_HOME": str(tmp_path / "home")}
        done = subprocess.run([bash, "-c", line], capture_output=True, text=True, check=True, cwd=tmp_path, env=home)
        assert not done.stderr
        return done.stdout.splitlines()

    return offered


def test_bash_completes_commands_options_and_models(complete: Complete) -> None:
    assert complete("edgellm", "ge") == ["generate"]
    assert "chat" in complete("edgellm", "")
    assert complete("edgellm", "generate", "--template") == ["--template", "--template-arg"]
    assert complete("edgellm", "info", "tiny") == ["tiny-model"]
    assert complete("edgellm", "info", "nothing-like-it") == [""]
    assert "generate" in complete("edgellm", "genrate", ""), "the same as after any other word that is no command"


def test_bash_completes_auxiliary_files_where_they_are_of_use(complete: Complete, tmp_path: Path) -> None:
    auxiliary_file("eagle3").write(tmp_path / "models" / "tiny-head.gguf")
    assert complete("edgellm", "generate", "tiny") == ["tiny-model"]
    for words in (("info",), ("verify",), ("quantize",), ("generate", "tiny-model", "--draft")):
        assert sorted(complete("edgellm", *words, "tiny")) == ["tiny-head", "tiny-model"]


def test_bash_completes_the_values_of_options(complete: Complete) -> None:
    assert complete("edgellm", "generate", "m", "--kv-type", "") == ["f16", "f32", "q8_0"]
    assert complete("edgellm", "plan", "m", "--kv-type", "f") == ["f16", "f32"]
    assert complete("edgellm", "convert", "m", "--type", "q5") == ["Q5_K_S", "Q5_K_M"]
    assert complete("edgellm", "generate", "--engine", "") == ["edgellm", "llama.cpp"]
    assert complete("edgellm", "generate", "--overflow", "w") == ["window"]
    assert "chatml" in complete("edgellm", "generate", "--template", "")
    assert complete("edgellm", "generate", "--gpu-layers", "a") == ["all", "auto"]
    assert complete("edgellm", "tokenize", "--tokenizer-pre", "llama-b") == ["llama-bpe"]
    assert complete("edgellm", "perplexity", "--against", "tiny") == ["tiny-model"]
    assert complete("edgellm", "eval", "m", "--suite", "") == ["tools", "needle", "copy"]


def test_bash_completes_removable_names_for_rm(complete: Complete, tmp_path: Path) -> None:
    """Pulled models and repositories by name; no files, and no models of other programs."""
    folder = tmp_path / "home" / "models" / "org" / "name-GGUF"
    folder.mkdir(parents=True)
    for name in ("got-Q8_0", "put-Q8_0"):
        write_model(folder / f"{name}.gguf", types="F32", layers=1, width=64, heads=2, kv_heads=1)
    write_record(folder, {"got-Q8_0.gguf": FileRecord(1, "sha256:")})
    assert "tiny-model" in complete("edgellm", "info", "")
    assert sorted(complete("edgellm", "rm", "")) == ["got-Q8_0", "org/name-GGUF"]
    assert complete("edgellm", "rm", "org/") == ["org/name-GGUF"]


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_a_completed_name_is_one_word_and_runs_no_command(complete: Complete, tmp_path: Path, quote: str) -> None:
    """Bash runs the completed line, with the quotes it began with. Names with line ends are not offered."""
    begun = quote.replace('"', r"\"")
    run = f"""for word in "${{COMPREPLY[@]}}"; do eval "set -- {begun}$word{begun}"; done"""
    assert len(complete("edgellm", "info", "zz")) == len(EVIL)
    complete("edgellm", "info", "zz", then=f"{run} 2>/dev/null; true")
    assert not (tmp_path / "X").exists()
    if not quote:
        words = complete("edgellm", "info", "zz", then=run.replace("; done", r'; printf "%s\\n" "$1"; done'))
        assert sorted(words) == sorted(EVIL)
