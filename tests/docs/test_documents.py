"""What the documents name exists: files, functions, commands, options, links."""

import re
from pathlib import Path

import click
import pytest

from edgellm.arch import ARCHITECTURES
from edgellm.arch.gemma4_assistant import FACTS as ASSISTANT
from edgellm.arguments import ReplyArguments
from edgellm.cli import cli
from edgellm.cli.unsupported import UNSUPPORTED_OPTIONS
from edgellm.options import ChatOptions, GenerationOptions, LoadOptions, TemplateOptions
from edgellm.options.aliases import OPTION_ALIASES
from support import ROOT
from support.source_tree import TOP_LEVEL, defines, exists
from tui.commands import COMMANDS as SLASH_COMMANDS
from tui.core.settings import is_setting
from tui.views.keymap import bindings

SUBCOMMANDS = cli.list_commands(click.Context(cli))
DOCUMENTS = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "models/builtin/README.md")]
DOCUMENTS += sorted((ROOT / "docs").glob("*.md"))
TOP = "|".join((*TOP_LEVEL, "tests"))
PATH = re.compile(rf"(?<![\w./~-])(?:{TOP})/[\w./]*\w")
DOTTED = re.compile(rf"`((?:{'|'.join(TOP_LEVEL)})(?:\.\w+)+)`")
NAME_IN_FILE = re.compile(r"`([\w.]+)` (?:in|of) `([\w/]+\.py)`")
DIAGRAM_ROW = re.compile(r"^ *([\w/]+\.py) +([A-Za-z_][\w.]*)(?: {2,}|$)", re.MULTILINE)
TABLE_ROW = re.compile(r"\| `([\w/]+\.py)` \| (`[^|]+`) \|$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]*)(?:#([\w-]+))?\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^(?:\$ )?edgellm ([^#\n]*)", re.MULTILINE)
OPTION = re.compile(r"--?[a-z]")
FOREIGN = {"-m", "-c", "-ngl", "--temperature"}
"""Options of llama.cpp and ollama that edgellm translates, and of pytest."""
FROM_LLAMA_CPP = "## From llama.cpp"
"""The heading of a table of llama.cpp's options, each of which edgellm translates or has advice for."""
SLASH = re.compile(r"`/(\w+)")


@pytest.fixture(params=DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def document(request: pytest.FixtureRequest) -> tuple[Path, str]:
    path: Path = request.param
    return path, path.read_text(encoding="utf-8")


def test_no_file_has_both_sides_of_a_merge() -> None:
    """Python reads conflict marks in a docstring, and renderers those in a document."""
    files = DOCUMENTS + [path for folder in (*TOP_LEVEL, "tests") for path in (ROOT / folder).rglob("*.py")]
    assert [path for path in files if re.search("^(<{7}|>{7}) ", path.read_text(encoding="utf-8"), re.MULTILINE)] == []


def test_every_file_exists(document: tuple[Path, str]) -> None:
    named = {found.removesuffix("/...") for found in PATH.findall(document[1])}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_dotted_name_exists(document: tuple[Path, str]) -> None:
    assert [name for name in DOTTED.findall(document[1]) if not exists(name)] == []


def test_every_name_is_in_the_file_beside_it(document: tuple[Path, str]) -> None:
    text = document[1]
    pairs = [(path, name) for name, path in NAME_IN_FILE.findall(text)]
    pairs += [(path, name) for path, cell in TABLE_ROW.findall(text) for name in re.findall(r"`([\w.]+)`", cell)]
    pairs += DIAGRAM_ROW.findall(text)
    assert [(path, name) for path, name in pairs if not defines(ROOT / path, name)] == []


def test_every_link_leads_somewhere(document: tuple[Path, str]) -> None:
    path, text = document
    for target, anchor in LINK.findall(text):
        if "://" in target:
            continue
        to = path.parent / target if target else path
        assert to.is_file(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", to.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings]


def test_every_command_and_option_exists(document: tuple[Path, str]) -> None:
    for line in commands(document[1]):
        name, *words = line.split()
        if name in SUBCOMMANDS:
            assert {word.partition("=")[0] for word in words if OPTION.match(word)} <= options_of(name), line
        else:
            assert name in ("COMMAND", "--help", "--version"), line


def test_every_option_exists(document: tuple[Path, str]) -> None:
    """Also where it stands apart from its command, in prose or in a table."""
    known = FOREIGN.union(*map(options_of, SUBCOMMANDS))
    if FROM_LLAMA_CPP in document[1]:
        known |= {"-md", *UNSUPPORTED_OPTIONS, *(f"--{name.replace('_', '-')}" for name in OPTION_ALIASES)}
    assert set(re.findall(r"`(--?[a-z][\w-]*)", FENCED.sub("", document[1]))) - known == set()


def commands(text: str) -> list[str]:
    """What follows `edgellm` in code blocks and inline code."""
    blocks = "\n".join(FENCED.findall(text))
    return [*COMMAND.findall(blocks), *re.findall(r"`edgellm ([^`]+)`", FENCED.sub("", text))]


def options_of(name: str) -> set[str]:
    with click.Context(cli) as context:
        command = cli.get_command(context, name)
    assert command
    return {option for parameter in command.params for option in parameter.opts} | {"--help"}


def test_every_slash_command_exists_and_is_described() -> None:
    text = (ROOT / "docs" / "chat.md").read_text(encoding="utf-8")
    assert {*SLASH.findall(text)} == {*SLASH_COMMANDS}
    assert all(is_setting(name) for name in re.findall(r"`/set (\w+)", text))


def test_every_key_of_the_chat_exists() -> None:
    table = (ROOT / "docs" / "chat.md").read_text(encoding="utf-8").partition("## Keys")[2].partition("\n\n`config")[0]
    named = {key for row in re.findall(r"^\| ([A-Z].*?) \|", table, re.MULTILINE) for key in row.split(", ")}
    assert len(named) > 20
    bound = {key for _, declared in bindings() for binding in declared for key in binding.key.split(",")}
    plain = {key.lower().replace(" ", "").replace("esc", "escape") for key in named if not key.startswith("`")}
    assert plain - bound == set()


def test_every_subcommand_is_described() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert [name for name in SUBCOMMANDS if f"| `edgellm {name}" not in text] == []


def test_every_architecture_and_checkpoint_class_has_a_row() -> None:
    rows = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("architectures.md", "converting.md")}
    for text in rows.values():
        first = " ".join(re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE))
        assert sorted(re.findall(r"`([\w-]+)`", first)) == sorted(ARCHITECTURES)
    classes = {each.name for facts in (*ARCHITECTURES.values(), ASSISTANT) for each in facts.checkpoints}
    assert {*re.findall(r"\b\w+For(?:CausalLM|ConditionalGeneration)\b", rows["converting.md"])} == classes


def test_the_readme_has_one_command_that_sets_up_the_tests() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(re.findall(r"/pytest$", readme, re.MULTILINE)) == 1


def test_the_options_that_python_takes_exist() -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    kinds = (LoadOptions, GenerationOptions, ChatOptions, TemplateOptions)
    known = {name for kind in kinds for name in kind.names()} | {"system", "n", *ReplyArguments.__annotations__}
    assert {*re.findall(r"\.(?:chat|stream|generate|open)\([^)\n]*?(\w+)=", text)} <= known
