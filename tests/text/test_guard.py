"""Text of messages that no control token can be read in, against the definition."""

from hypothesis import given
from hypothesis import strategies as st

from edgellm.text.guard import Guard

MARK = "\ue000"
TEXTS = st.text("<|a>", min_size=2, max_size=6)


@given(st.sets(TEXTS, min_size=1, max_size=5), st.text("<|a> ", max_size=8))
def test_what_comes_before_and_behind_a_text_never_completes_a_control_token(controls: set[str], text: str) -> None:
    guarded = Guard(MARK, dict.fromkeys(controls, 0)).applied(text)
    assert guarded.replace(MARK, "") == text
    if text.isalnum():
        return
    assert not any(control in guarded for control in controls)
    ends = [
        any(text.startswith(control[n:]) for control in controls for n in range(1, len(control))),
        any(text.endswith(control[:n]) for control in controls for n in range(1, len(control))),
    ]
    assert [guarded.startswith(MARK), guarded.endswith(MARK)] == ends


def test_a_control_token_may_be_very_long() -> None:
    long = "<|" + "x" * 200_000 + "|>"
    assert Guard(MARK, {long: 0}).applied("a text that ends with <|x") == "a text that ends with <|x" + MARK
