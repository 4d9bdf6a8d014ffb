"""Rules about the code as a whole that ARCHITECTURE.md states or relies on."""

import tomllib
from collections import defaultdict

from support import ROOT
from support.source_tree import classes, packages

ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
MAX_BASES = 2
"""Classes of our own above a class: behaviour is composed, not sliced over a chain of subclasses."""


def test_no_two_classes_have_one_name() -> None:
    places = defaultdict(list)
    for path, node in classes():
        places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_class_ends_a_long_chain_of_subclasses() -> None:
    bases = {node.name: [base.id for base in node.bases if hasattr(base, "id")] for _, node in classes()}

    def above(name: str) -> int:
        return max((1 + above(base) for base in bases[name] if base in bases), default=0)

    assert {name: above(name) for name in bases if above(name) > MAX_BASES} == {}


def test_every_package_has_a_row_in_the_table() -> None:
    rows = [line.split("|")[1].strip().strip("`") for line in ARCHITECTURE.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(packages())


def test_every_package_names_a_file_of_its_own_to_open_first() -> None:
    rows = [line.split("|") for line in ARCHITECTURE.splitlines() if line.startswith("| `")]
    for _, package, _, first, _ in rows:
        folder = package.strip(" `").replace(".", "/")
        assert first.strip(" `").startswith(f"{folder}/"), package


def test_the_layers_are_those_of_the_import_contract() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = [each for each in config["tool"]["importlinter"]["contracts"] if "containers" in each]
    assert [each["containers"] for each in contracts] == [["edgellm"], ["kquants"]]
    for contract in contracts:
        (container,) = contract["containers"]
        block = ARCHITECTURE.partition(f"```\n{container}\n")[2].partition("\n```")[0]
        assert [line.strip() for line in block.splitlines()] == contract["layers"]
        assert contract["exhaustive"]
