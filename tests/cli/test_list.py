"""`edgellm list`, and names in place of paths on every command that takes MODEL."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edgellm import cli
from edgellm.cli.list import command
from edgellm.gguf import GGUFFile
from support.auxiliary_files import auxiliary_file
from support.local_models import Machine, machine, model
from support.model_file import ModelFile

__all__ = ["machine"]


def run(*args: str) -> Result:
    return CliRunner().invoke(command, args, catch_exceptions=False)


def edgellm(*args: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgellm", *args]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)


def test_a_line_for_each_model(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    first = machine.write("models/a.gguf", model(250, file_type=15))
    second = machine.ollama_model("registry.ollama.ai/library/qwen3/8b", "a", model(4, context=None))
    shown = run()
    assert shown.exit_code == 0
    head, *lines = (line.split() for line in shown.stdout.splitlines())
    assert head == ["name", "size", "type", "architecture", "context", "from", "path"]
    assert lines == [
        ["a", f"{first.stat().st_size / 1000:.3g}", "kB", "Q4_K_M", "llama", "2,048", "./models", str(first)],
        ["qwen3:8b", str(second.stat().st_size), "bytes", "F32", "llama", "ollama", str(second)],
    ]


def test_json(machine: Machine) -> None:
    path = machine.write("models/a.gguf", model(4, file_type=7))
    machine.write("models/b.gguf", b"PK\x03\x04")
    good, bad = json.loads(run("--json").stdout)
    facts = {"name": "a", "source": "./models", "path": str(path), "bytes": path.stat().st_size}
    facts |= {"problem": None, "kind": "model"}
    assert good == facts | {"quantization": "Q8_0", "architecture": "llama", "context_length": 2048}
    assert (bad["name"], bad["bytes"], bad["quantization"]) == ("b", 4, None)
    assert "ZIP" in bad["problem"]


def test_bad_files_have_their_reason(machine: Machine) -> None:
    path = machine.write("models/b.gguf", b"")
    shown = run()
    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == ["cannot be opened:", f"  {path} (./models)", "    is empty; download it again"]


def test_files_of_no_model_are_listed_apart(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    paths = {name: machine.write(f"models/{name}.gguf", auxiliary_file(name)) for name in ("eagle3", "mmproj")}
    opened, read = list[str](), GGUFFile.open
    monkeypatch.setattr(GGUFFile, "open", lambda path: (opened.append(Path(path).stem), read(path))[1])
    shown = run()
    assert shown.stdout.splitlines()[0] == "heads that draft, for --draft:"
    assert "only the built-in model" in shown.stderr
    assert sorted(opened) == ["eagle3", "mmproj"], "each header is read once"
    machine.write("models/broken.gguf", b"")
    first = machine.write("models/a.gguf", model(file_type=7))
    lines = run().stdout.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["name", "a", "heads", "name", "eagle3"]
    assert lines[4].endswith(f"  eagle3                 ./models  {paths['eagle3']}")
    assert lines[5:] == [
        "no models:",
        f"  {paths['mmproj']} (./models)",
        "    holds the part of a model that reads images or sound, not a model; open the file of the model itself",
        "cannot be opened:",
        f"  {first.with_name('broken.gguf')} (./models)",
        "    is empty; download it again",
    ]
    kinds = {each["name"]: each["kind"] for each in json.loads(run("--json").stdout)}
    assert kinds == {"a": "model", "broken": None, "eagle3": "head", "mmproj": "mmproj"}


def test_a_table_fits_the_screen(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.write(machine.own / "models/org/repo/Llama-3.2-1B-Instruct-Q4_K_M.gguf", model(8, file_type=15))
    (path,) = [machine.write("models/m.gguf", b"GGUF\x03")]
    heads = {
        "400": "name size type architecture context from path",
        "100": "name size type architecture context from",
        "80": "name size type architecture context from",
        "70": "name size type context from",
        "60": "name size type context",
        "45": "name size",
        "20": "name size",
    }
    for columns, wanted in heads.items():
        monkeypatch.setenv("COLUMNS", columns)
        head, row, _, where, *problem = run().stdout.splitlines()
        assert head.split() == wanted.split()
        assert row.startswith("Llama-3.2-1B-Instruct-Q4_K_M  ")
        assert max(map(len, [head, row])) <= max(int(columns), 39)
        assert where == f"  {path} (./models)"
        assert all(len(line) <= max(int(columns), 20) for line in problem)
    monkeypatch.delenv("COLUMNS")
    assert run().stdout.splitlines()[0].split() == heads["80"].split()


def test_no_models(machine: Machine) -> None:
    assert json.loads(run("--json").stdout) == []
    shown = run()
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert "./models" in shown.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="such names cannot be written there")
def test_hostile_names_are_printed_safely(machine: Machine) -> None:
    machine.write("models/\x1b[2J\u202ex.gguf", model(1))
    machine.write("models/\x1b]0;y\x07.gguf", b"")
    shown = run().stdout
    assert not set(shown) & {"\x1b", "\x07", "\u202e"}
    assert "\\x1b[2J" in shown


def test_names_on_every_command(machine: Machine, model_file: ModelFile) -> None:
    path = model_file(types="F32")
    (machine.here / "models").mkdir()
    (machine.here / "models/Tiny-F32.gguf").symlink_to(path)
    for args in (["info", "tiny", "--json"], ["verify", "TINY-F32", "--json"], ["tokenize", "tiny", "--json"]):
        by_name, by_path = edgellm(*args, given="the time"), edgellm(args[0], str(path), *args[2:], given="the time")
        assert (by_name.returncode, by_name.stderr) == (0, "")
        assert by_name.stdout.replace("models/Tiny-F32.gguf", str(path)) == by_path.stdout
    options = ("-p", "the", "-n", "2", "--temp", "0")
    by_name, by_path = (edgellm("generate", name, *options) for name in ("tiny", str(path)))
    assert (by_name.returncode, by_name.stdout) == (0, by_path.stdout)


def test_an_unknown_name_is_one_line_on_every_command(machine: Machine) -> None:
    machine.write("models/qwen3-1.7b.gguf")
    for args in (["info"], ["verify"], ["tokenize"], ["generate", "-p", "a"]):
        told = edgellm(args[0], "qwen2-1.7b", *args[1:])
        assert (told.returncode, told.stdout) == (1, "")
        assert told.stderr.count("\n") == 1
        assert "qwen3-1.7b" in told.stderr


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from edgellm.cli import run; sys.argv = ['edgellm', '--help']; run(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "list " in done.stdout
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & {"numpy", "numba", "llama_cpp", "edgellm.models", "edgellm.llamacpp", "platformdirs"}


@pytest.mark.parametrize("name", ["imatrix", "adapter", "mmproj", "eagle3", "assistant"])
def test_a_file_of_no_model_is_one_line_on_every_command(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    machine.write(f"models/{name}.gguf", auxiliary_file(name))
    plain = (["plan"], ["tokenize"], ["bench"], ["chat", "--plain"], ["serve", "--port", "0"])
    for args in (*plain, ["generate", "-p", "a"], ["generate", "-p", "a", "--engine", "llama.cpp"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        monkeypatch.setattr(sys, "argv", ["edgellm", args[0], name, *args[1:]])
        with pytest.raises(SystemExit) as stop:
            sys.exit(cli.run())
        assert stop.value.code == 1, args
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1), args
        assert err.startswith(f"edgellm: models/{name}.gguf: holds ") and ", not a model; " in err, args


def test_the_current_folder_alone_makes_names_relative(machine: Machine) -> None:
    machine.write("models/sub/m.gguf")
    assert json.loads(run("--json").stdout)[0]["path"] == str(Path("models/sub/m.gguf").absolute())
