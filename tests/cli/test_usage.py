"""Wrong usage of the command line: one line says what is possible, and which help to read."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields

import click
import pytest

from edgellm import cli
from edgellm.cli import aliases, unsupported
from edgellm.cli.group import COMMANDS
from edgellm.options import GenerationOptions, LoadOptions
from edgellm.options.aliases import OPTION_ALIASES

Refused = Callable[..., str]

_OF_LLAMA_CPP = """
-cl -tb -Cr -Cb -Crb -ub -fa -kvo -nkvo -nr -ctk -ctv -dt -lm -lzm -dev -ot -ncffn -sm -ts -mg -fit -fitt
-fitc -mu -dr -hf -hfr -hff -hft -lv -ctkd -ctvd -np -cb -nocb -mli -st -ngld -devd -cd -mm -mmu -jf -kvu -dio -ndio
-sp -to -bf -td -tbd -hfd
"""


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refused:
    """The error of the command line for words that it refuses with exit code 2."""

    def refuse(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["edgellm", *words])
        assert cli.run() == 2
        return capsys.readouterr().err

    return refuse


@pytest.mark.parametrize(
    "wrong",
    ["--against ollama", "--threads 0", "--threads 1,,2", "--threads x", "--rounds 0", "-p -1", "--parallel 0"],
)
def test_wrong_usage(wrong: str, refused: Refused) -> None:
    said = refused(*f"bench m.gguf {wrong}".split())
    assert wrong.split()[0] in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("bench m.gguf --parallel 0", "--parallel cannot be 0: give a whole number, from 1 to 64"),
        ("bench m.gguf --parallel 65", "--parallel cannot be 65: give a whole number, from 1 to 64"),
        ("bench m.gguf -p -1", "--prompt-tokens cannot be '-1': give a number of tokens, or a range: 128-512"),
        (
            "plan m.gguf --cpu-moe --n-cpu-moe 2",
            "--n-cpu-moe adds nothing to --cpu-moe, which keeps the experts of all",
        ),
        ("perplexity m.gguf text --ctx 4", "--ctx cannot be 4: give a whole number, at least 5, as two tokens"),
    ],
)
def test_impossible_values_are_refused_by_the_names_of_the_command_line(
    given: str, told: str, refused: Refused
) -> None:
    assert refused(*given.split()).startswith(f"edgellm: {told}")


@pytest.mark.parametrize(
    ("words", "named"),
    [("bench --against", "edgellm bench"), ("-- bench --json=1", "edgellm bench"), ("--version=1", "edgellm")],
)
def test_wrong_usage_names_the_help_to_read(words: str, named: str, refused: Refused) -> None:
    assert refused(*words.split()).endswith(f"(see {named} --help)\n")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("genrate", "; did you mean generate?"),
        ("shwo", "; did you mean info?"),
        ("xyz\x1b", "'. (see"),
        ("rn", "'. (see"),  # rm is not near enough to be proposed
        ("help nix", "'nix'. (see"),
    ],
)
def test_an_unknown_command(name: str, advice: str, refused: Refused) -> None:
    said = refused(*name.split())
    assert said.startswith("edgellm: No such command '") and advice in said and "\x1b" not in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run m.gguf", "edgellm has no `run`: `edgellm chat MODEL` talks"),
        ("ps", "edgellm has no `ps`: "),
        ("m.gguf", "a command goes before the model: edgellm chat m.gguf"),
        ("Org/Name", "a command goes before the model: edgellm chat Org/Name"),
        ("builtin", "a command goes before the model: edgellm chat builtin"),
        ("bench m.gguf --against vllm", "--against: edgellm compares with llama.cpp only (see edgellm bench"),
        ("completion klingon", "give bash, zsh or fish (see edgellm completion"),
        ("generate m.gguf -p x --threds 2", "No such option '--threds'. Did you mean '--threads'?"),
        ("generate m.gguf -p x --thread 2", "No such option '--thread'. Did you mean '--threads'?"),
        ("generate m.gguf -p x --mirostat 2", "No such option '--mirostat'. (see"),
        ("convert m --temperature 0", "No such option '--temperature'. (see"),
        ("cp a b", "edgellm has no `cp`: a model is a file"),
        ("version", "edgellm has no `version`: `edgellm --version`"),
        ("embed m.gguf", "edgellm has no `embed`: edgellm makes no embeddings"),
        ("-m m.gguf", "a command goes before the model: edgellm chat MODEL"),
        ("-hf org/name", "edgellm has no `-hf`: `edgellm pull REPO`"),
        ("generate -hf org/name -p x", "edgellm has no `-hf`: `edgellm pull REPO`"),
        ("generate m.gguf -p x -ctk q8_0", "edgellm has no `-ctk`: --kv-type TYPE"),
        ("generate m.gguf --cache_type_k q8_0", "edgellm has no `--cache_type_k`: --kv-type TYPE"),
        ("info m.gguf -ctk q8_0", "No such option '-ctk'. (see edgellm info"),
        ("generate m.gguf -np 2", "edgellm has no `-np`: one command writes one reply"),
        ("bench m.gguf -np 2", "edgellm has no `-np`: --parallel N"),
        ("bench m.gguf -r 2", "edgellm has no `-r`: --rounds N"),
        ("generate m.gguf --format json", "edgellm has no `--format`: --json-schema holds the reply to a schema"),
        ("chat m.gguf --grammar g", "edgellm chat has no `--grammar`: `edgellm generate --json-schema`, `--regex`"),
        ("chat m.gguf --tools t", "edgellm chat has no `--tools`: /tools FILE in the chat gives the model commands"),
        ("chat m.gguf --json-schema s", "edgellm chat has no `--json-schema`: /schema FILE in the chat holds replies"),
        ("bench m.gguf --tools t", "edgellm bench has no `--tools`: `edgellm generate --tools FILE` prints calls"),
        ("chat m.gguf --regex x", "edgellm chat has no `--regex`: `edgellm generate --json-schema`, `--regex`"),
        ("tokenize m.gguf -p x", "edgellm has no `-p`: the text comes on stdin"),
        ("quantize a b q4_k_m", "q4_k_m is a type: give it with --type q4_k_m"),
        ("quantize a b Q8_0 4", "Q8_0 is a type: give it with --type Q8_0"),
        ("quantize a b c\x1b", r"IN and OUT are all that is given without an option, and not c\x1b (see"),
        ("generate m.gguf -p x -xyz", "No such option '-xyz'. (see edgellm generate"),
        ("generate m.gguf -p x -hx", "No such option '-hx'. (see"),
        ("generate m.gguf -p x -nx", "No such option '-nx'. (see"),
        ("generate m.gguf -p x -qnx 3", "No such option '-qnx'. (see"),
    ],
)
def test_commands_and_options_of_other_programs_are_answered_with_advice(
    words: str, told: str, refused: Refused
) -> None:
    assert refused(*words.split()).startswith(f"edgellm: {told}")


@pytest.mark.parametrize(
    ("command", "theirs", "ours"),
    [
        ("generate", "-m m.gguf -c 9 -ngl 3 --temperature 0 -p x", "m.gguf --ctx 9 --gpu-layers 3 --temp 0 -p x"),
        ("generate", "-m m.gguf -cmoe -p x", "m.gguf --cpu-moe -p x"),
        ("generate", "m -md d --draft-n 3", "m --draft d --draft-max 3"),
        ("generate", "m -ncmoe 3", "m --n-cpu-moe 3"),
        ("generate", "-p -m --model=m --n-predict=3", "m -p -m --max-tokens=3"),
        (
            "generate",
            "m --top_k 4 --repetition_penalty 2 -- --temperature",
            "m --top-k 4 --repeat-penalty 2 -- --temperature",
        ),
        ("generate", "m --stop -c -no-cnv -t 2", "m --stop -c --raw --threads 2"),
        ("generate", "m -r x -sysf f -p -fa -f -ctk", "m --stop x --system-file f -p -fa -f -ctk"),
        ("generate", "m -qn 3 -n5 -qpHi -fname -", "m -qn 3 -n5 -qpHi -fname -"),
        ("generate", "m -qp -hf -t 1", "m -qp -hf --threads 1"),
        ("generate", "m -- -hf", "m -- -hf"),
        ("plan", "--num-ctx 5 -m", "--ctx 5 -m"),
        ("perplexity", "-f text -m m -c 64", "m --ctx 64 text"),
        ("perplexity", "m --file=- -t 2", "m --threads 2 -"),
        ("quantize", "-o out in --type F16", "in --type F16 out"),
        ("convert", "m --outfile out", "m --out out"),
        ("convert", "-m x --ctx-size 3", "-m x --ctx-size 3"),
    ],
)
def test_options_of_other_programs_with_the_same_meaning(command: str, theirs: str, ours: str) -> None:
    found = cli.cli.get_command(click.Context(cli.cli), command)
    assert found is not None
    assert aliases.translate_arguments(found, theirs.split()) == ours.split()


@pytest.mark.parametrize("words", ["-n -1", "--max-tokens=-1", "-c 0", "--ctx 0", "--seed -1", "-s -1", ""])
def test_the_default_value_of_llama_cpp_counts_as_not_given(words: str) -> None:
    command = cli.cli.get_command(click.Context(cli.cli), "generate")
    assert command
    arguments = aliases.translate_arguments(command, ["m.gguf", *words.split()])
    given = command.make_context("generate", arguments).params
    assert [given[name] for name in ("max_tokens", "ctx", "seed")] == [None] * 3


def test_no_option_of_llama_cpp_is_read_as_letters(refused: Refused) -> None:
    """Its options of several letters behind one dash (tools/server/README.md), given to `generate` with a value."""
    for word in _OF_LLAMA_CPP.split():
        said = refused("generate", "m.gguf", "-p", "x", word, "1")
        assert f"`{word}`" in said or f"'{word}'" in said, said
        assert said.count("\n") == 1


def test_advice_names_existing_options() -> None:
    group = cli.cli
    commands = [group.get_command(click.Context(group), name) for name in COMMANDS]
    known = {name for command in commands if command for option in command.params for name in option.opts}
    for texts in unsupported.UNSUPPORTED_OPTIONS.values():
        for said in texts:
            assert {word.strip(".,;`") for word in said.split() if word.startswith("--")} <= known


def test_every_alias_means_an_existing_option() -> None:
    known = {option.name for kind in (LoadOptions, GenerationOptions) for option in fields(kind)}
    assert set(OPTION_ALIASES.values()) <= known | {"system", "template"}
    assert not known & set(OPTION_ALIASES)


@pytest.mark.parametrize(("words", "told"), [("show builtin", "architecture"), ("ls", "builtin"), ("-V", "edgellm 0")])
def test_aliases_of_commands(
    words: str, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["edgellm", *words.split()])
    assert cli.run() == 0
    assert told in capsys.readouterr().out


@pytest.mark.parametrize("words", ["help", "help rm", "help remove"])
def test_help_is_a_command_too(words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["edgellm", *words.split()])
    assert cli.run() == 0
    assert capsys.readouterr().out.startswith("Usage: edgellm rm" if " " in words else "Usage: edgellm [")


def test_help_is_light() -> None:
    code = (
        "import sys; sys.argv = ['edgellm', 'bench', '--help']; from edgellm.cli import run; run(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "numba", "llama_cpp"} & set(done.stdout.split())
