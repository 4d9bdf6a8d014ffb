"""Heads of each kind before and after a reply: context shifts, next turns, branches, replies that are left early."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from edgellm import Model
from support.draft_pairs import counted, plainly, references, shifted, without_drafts, written
from support.generation import NEVER
from support.headed_models import CTX, HEADED, opened_headed

pytestmark = pytest.mark.usefixtures("all_drafts")
IDS = [3 + 7 * i % 260 for i in range(CTX - 30)]


@pytest.fixture(scope="module", params=HEADED)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    with opened_headed(request.param, tmp_path_factory.mktemp("headed"), request) as model:
        yield model


def options(model: Model, max_tokens: int) -> dict[str, Any]:
    """Those of replies that do not end by themselves."""
    ends = dict.fromkeys(model.tokenizer.eog_ids, NEVER)
    return {"temp": 0.8, "seed": 2, "max_tokens": max_tokens, "logit_bias": ends}


def test_a_reply_goes_on_after_a_context_shift(model: Model) -> None:
    with counted(model.engine.draft_head) as passes:
        found, before = shifted(model, IDS, lambda: len(passes), **options(model, 70))
    assert before > 10
    assert len(passes) - before > 20, "the head drafts again"
    with without_drafts(model):
        assert shifted(model, IDS, **options(model, 70))[0] == found
    assert len(found) == 70


def test_next_turns_and_branches_have_drafts(model: Model) -> None:
    first = [token for token, *_ in written(model, IDS[:20], **options(model, 40))]
    branches = [[*IDS[:20], *first[:n], 100, 101] for n in (40, 20, 30)]
    for branch in branches:
        with counted(model.engine.draft_head) as passes:
            found = written(model, branch, **options(model, 30))
        assert len(passes) > 15
        assert plainly(model, branch, **options(model, 30)) == found


def test_replies_that_are_left_early_disturb_no_other_and_leave_nothing_behind(model: Model) -> None:
    prompts, given = [IDS[:20], IDS[30:40], [7, 9]], options(model, 60)
    alone = [plainly(model, prompt, **given) for prompt in prompts]
    with counted(model.engine.draft_head) as passes, ThreadPoolExecutor(3) as pool:
        others = [pool.submit(written, model, prompt, **given) for prompt in prompts]
        for tokens in (1, 7, 30):
            reply = model.stream(IDS[:20], **given)
            assert [next(reply).id for _ in range(tokens)] == [each[0] for each in alone[0][:tokens]]
            reply.cancel()
            reply.close()
        assert [each.result(60) for each in others] == alone
    assert len(passes) > 30
    assert model.kv_stats, "its turn drops what replies left that ended"
    assert references(model.engine) == 0
