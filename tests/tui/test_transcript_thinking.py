"""Replies split into thinking and answer, complete and while they come."""

import pytest

from tui.transcript.thinking import Thinking, split


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("Noon.", None, "Noon."),
        ("<think>\nA\n</think>\n\nB", "\nA\n", "\n\nB"),
        ("A\nA\n</think>\n\nB", "A\nA\n", "\n\nB"),
        ("Write `</think>` behind it.", None, "Write `</think>` behind it."),
        ("<think>\nA\n</think>\n<answer>\nB\n</answer>", "\nA\n", "B"),
        ("<think>\nA\n</think>\n\n<response>\nB\n</response>\n", "\nA\n", "B\n"),
        ("A\n</think>\n<answer>B</answer> C", "A\n", "B C"),
        ("<think>A</think><answer>B", "A", "B"),
        ("<think>A</think>B <answer>C</answer>", "A", "B <answer>C</answer>"),
        ("<answer>B</answer>", None, "<answer>B</answer>"),
    ],
)
def test_a_whole_reply(text: str, thought: str | None, answer: str) -> None:
    assert split(text, running=False) == Thinking(thought, answer)


@pytest.mark.parametrize(
    "whole", ["<think>\nA <b>\n</think>\n<answer>\nB < C\n</answer>", "<think>A</think>\n<response>B</response>"]
)
def test_no_part_of_a_mark_shows_while_a_reply_comes(whole: str) -> None:
    done = split(whole, running=False)
    for end in range(len(whole)):
        thought, answer, _ = split(whole[:end], running=True)
        assert done.thought is not None and done.thought.startswith(thought or "")
        assert done.answer.startswith(answer.strip("\n"))
