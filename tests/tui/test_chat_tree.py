"""Conversations as trees: versions, and the path that is shown."""

from tui.core.tree import Message, Tree


def message(number: int, parent: int | None, role: str = "user") -> Message:
    return Message(number, parent, role, f"text {number}", float(number))


def ids(tree: Tree) -> list[int]:
    return [message.id for message in tree.path()]


def forest() -> Tree:
    """1 ─ 2 ─ 3 ─ 4, with another reply 5 to 1, and another beginning 6 ─ 7."""
    parents = {1: None, 2: 1, 3: 2, 4: 3, 5: 1, 6: None, 7: 6}
    return Tree([message(i, parent) for i, parent in parents.items()], leaf=4)


def test_the_path_leads_to_the_leaf() -> None:
    assert ids(forest()) == [1, 2, 3, 4]
    assert Tree().path() == []


def test_versions_are_siblings_in_order() -> None:
    tree = forest()
    assert tree.versions(2) == tree.versions(5) == [2, 5]
    assert tree.versions(1) == [1, 6]
    assert tree.versions(4) == [4]


def test_walking_away_and_back_shows_what_was_shown() -> None:
    tree = forest()
    tree.walk(2, 1)
    assert ids(tree) == [1, 5]
    tree.walk(1, 1)
    assert ids(tree) == [6, 7]
    tree.walk(6, -1)
    assert ids(tree) == [1, 5]
    tree.walk(5, -1)
    assert ids(tree) == [1, 2, 3, 4]


def test_walking_beyond_the_ends_changes_nothing() -> None:
    tree = forest()
    for step in (-1, 2):
        tree.walk(2, step)
        assert ids(tree) == [1, 2, 3, 4]


def test_showing_a_message_goes_down_to_its_newest_reply() -> None:
    tree = Tree([message(i, p) for i, p in {1: None, 2: 1, 3: 1, 4: 3}.items()], leaf=None)
    assert ids(tree) == []
    tree.show(1)
    assert ids(tree) == [1, 3, 4]


def test_a_message_put_again_is_replaced() -> None:
    tree = forest()
    tree.put(Message(3, 2, "user", "other", 3.0))
    assert tree.path()[2].text == "other"
    assert tree.versions(3) == [3]
