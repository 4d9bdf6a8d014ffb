"""What drafts gave, as clients and Prometheus are told."""

from edgellm.generate.draft_tally import DraftStats
from edgellm.generate.stats import Stats
from edgellm.server.events import ReplyEnd
from edgellm.server.metrics import Metrics
from edgellm.server.openai.replies import usage


def end(choice: int, **drafts: tuple[int, int]) -> ReplyEnd:
    """The end of a reply of 20 tokens, with drafted and accepted tokens by source."""
    found = {source: DraftStats(drafted, accepted, 0.0) for source, (drafted, accepted) in drafts.items()}
    drafted, accepted = (sum(counts) for counts in zip(*drafts.values(), strict=True)) if drafts else (0, 0)
    figures = {"drafted": drafted, "accepted": accepted, "drafts": found}
    return ReplyEnd(choice, "stop", False, Stats(9, 0, 20, None, None, None, None, None, [], **figures), 3)


def test_a_client_is_told_how_many_drafts_were_right() -> None:
    found = usage([end(0, model=(8, 5), lookup=(3, 1)), end(1)], 2)
    assert found["completion_tokens"] == 40
    assert found["completion_tokens_details"] == {
        "reasoning_tokens": 6,
        "accepted_prediction_tokens": 6,
        "rejected_prediction_tokens": 5,
    }


def test_drafts_are_counted_by_model_and_source() -> None:
    metrics = Metrics()
    for each in end(0, model=(8, 5), lookup=(3, 1)), end(0, lookup=(4, 4)), end(0):
        metrics.record('a"b', each, 0.0)
    lines = set(metrics.text([]).splitlines())
    assert {
        'edgellm_drafted_tokens_total{model="a\\"b",source="model"} 8',
        'edgellm_drafted_tokens_total{model="a\\"b",source="lookup"} 7',
        'edgellm_accepted_tokens_total{model="a\\"b",source="model"} 5',
        'edgellm_accepted_tokens_total{model="a\\"b",source="lookup"} 5',
    } <= lines
