"""`edgellm bench --draft`: replies with drafts and without, what is expected of them, and options."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from edgellm import Model, OptionError
from edgellm.bench.drafting import DraftBench, Pair, expected_ratio
from edgellm.cli.bench import command
from edgellm.cli.bench_drafting_report import drafting_report
from edgellm.engine.failover import FailoverRunner
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.step_times import StepTimes
from edgellm.errors import EdgeLLMError
from edgellm.generate.draft_tally import DraftStats
from edgellm.generate.stats import Stats
from edgellm.speculation.rules import SameDraw
from edgellm.speculation.session_drafts import SessionDrafts
from support.certain_heads import write_certain_head
from support.draft_models import damped, first_layers
from support.drafts import AllDrafts
from support.gguf_parts import GGUFParts
from support.model_file import ModelFile

SIZES: dict[str, Any] = {"width": 64, "layers": 4, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
ARGUMENTS = ["-n", "12", "--rounds", "2", "--threads", "1"]


@pytest.fixture(scope="module")
def files(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target, and a draft model that guesses most of its tokens."""
    folder, parts = tmp_path_factory.mktemp("drafts"), GGUFParts.read(model_file(**SIZES, context_length=4096))
    target, draft = folder / "target.gguf", folder / "draft.gguf"
    target.write_bytes(damped(parts, 1, 8).build())
    draft.write_bytes(first_layers(parts, 1).build())
    return target, draft


@pytest.fixture
def bench(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)
    return lambda *args: CliRunner().invoke(command, [str(files[0]), *map(str, args)], catch_exceptions=False)


def figures(tokens: int, **drafts: DraftStats) -> Stats:
    accepted = sum(each.accepted for each in drafts.values())
    per_step = (tokens - 1) / (tokens - 1 - accepted)
    return Stats(9, 0, tokens, None, None, 20.0, None, None, [], tokens_per_step=per_step, drafts=drafts)


def test_the_expected_speed_is_the_closed_form() -> None:
    """Three drafts a step, of which two are accepted: 3 tokens in 0.05 + 3 · 0.005 s in place of 3 · 0.04 s."""
    times = StepTimes()
    times.record(1, 0.04)
    assert expected_ratio(Pair(figures(31), figures(31), {1: 0}), times) is None
    times.record(4, 0.05)
    drafted = figures(31, model=DraftStats(30, 20, 30 * 0.005))
    assert expected_ratio(Pair(figures(31), drafted, {1: 0, 4: 10}), times) == pytest.approx(3 * 0.04 / 0.065)
    # Half of the steps had no drafts.
    mixed = figures(21, model=DraftStats(15, 10, 15 * 0.005))
    assert expected_ratio(Pair(figures(21), mixed, {1: 5, 4: 5}), times) == pytest.approx(20 * 0.04 / (0.45 + 0.075))


def test_json_has_each_reply_with_its_drafts(bench: Callable[..., Result], files: tuple[Path, Path]) -> None:
    done = bench("--draft", files[1], "--draft-rule", "both", "--draft-max", 3, "--json", *ARGUMENTS)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["model"] == str(files[0]) and Path(found["draft"]).name == "draft.gguf"
    cases = [(each["reply"], each["temp"], each["rule"]) for each in found["replies"]]
    rules = [(0.0, "same"), (0.8, "same"), (0.8, "rejection")]
    assert cases == [(name, *rule) for name in ("code", "JSON", "prose") for rule in rules]
    assert found["draft_cost"] > 0 and set(found["step_ms"]) == {"1", "2", "4", "8", "16"}
    for each in found["replies"]:
        assert each["ratio"]["min"] <= each["ratio"]["median"] <= each["ratio"]["max"]
        assert each["difference"] == pytest.approx(each["ratio"]["median"] / each["expected"] - 1)
    prose = found["replies"][6]
    assert prose["drafts"]["model"]["accepted"] > 0.8 * prose["generated_tokens"] / 2
    assert prose["tokens_per_step"] > 2


def test_the_report_has_a_line_for_each_reply(bench: Callable[..., Result]) -> None:
    done = bench("--draft", "lookup", *ARGUMENTS)
    assert done.exit_code == 0, done.output
    head, _, blank, names, *lines = done.stdout.splitlines()
    assert head == "target.gguf, drafts without a model, 12 tokens" and not blank
    assert names.split()[:3] == ["reply", "temp", "rule"]
    assert [line.split()[:3] for line in lines] == [
        [name, temp, "same"] for name in ("code", "JSON", "prose") for temp in ("0", "0.8")
    ]


def test_the_report_names_what_drafts() -> None:
    found = {"model": "/m/q.gguf", "tokens": 256, "step_ms": {}, "draft_cost": None, "replies": []}
    names = {None: "drafts without a model", "/d/s.gguf": "draft s.gguf", "a head of /m/q.gguf": "a head"}
    for draft, name in names.items():
        assert next(drafting_report({**found, "draft": draft})) == f"q.gguf, {name}, 256 tokens"


@pytest.mark.parametrize(("replies", "lines"), [(1, 0), (2, 1), (5, 2)])
def test_ctrl_c_shows_the_replies_that_ended(
    replies: int, lines: int, bench: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    generate, left = Model.generate, [None] * replies

    def interrupted(*given: Any, **options: Any) -> Any:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return generate(*given, **options)

    monkeypatch.setattr(Model, "generate", interrupted)
    done = bench("--draft", "lookup", *ARGUMENTS)
    assert done.exit_code == 130
    assert "interrupted" in done.stderr
    assert len(done.stdout.splitlines()) == (4 + lines if lines else 0)


def test_a_line_by_hand() -> None:
    spread = {"median": 2.0, "min": 1.8, "max": 2.125}
    drafts = {"model": {"drafted": 400, "accepted": 100, "seconds": 1.0}, "lookup": {"drafted": 0, "accepted": 0}}
    reply = {"reply": "code", "temp": 0.8, "rule": "same", "plain_tps": spread, "tps": spread, "ratio": spread}
    reply |= {"tokens_per_step": 1.5, "drafts": drafts, "expected": 2.1, "difference": -0.05}
    found = {"model": "/m/a.gguf", "draft": "b.gguf", "tokens": 256, "draft_cost": 0.1, "step_ms": {1: 34.0, 2: 35.75}}
    assert list(drafting_report(found | {"replies": [reply]})) == [
        "a.gguf, draft b.gguf, 256 tokens",
        "a step of 1, 2 rows takes 34, 35.8 ms",
        "a draft takes 0.10 of a step",
        "",
        "reply  temp  rule           t/s   drafts               ratio       expected  accepted",
        "code    0.8  same           2.0      2.0    2.00 (1.80–2.12)     2.10 (-5%)  model 25% of 400, 1.50 a step",
    ]


def test_another_text_with_drafts_is_an_error(
    files: tuple[Path, Path], bench: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = lambda rule, p, proposal, key, position: proposal.token if proposal else 100  # noqa: E731
    monkeypatch.setattr(SameDraw, "choose", wrong)
    with Model.open(files[0], threads=1, draft=str(files[1])) as model:
        drafts = DraftBench(model, 12)
        with pytest.raises(EdgeLLMError, match="another text with drafts"):
            drafts.round(lambda status: None)
        assert model.drafts().most > 0, "what was changed for a reply is as it was"


def test_without_drafts_there_is_nothing_to_measure(
    files: tuple[Path, Path], bench: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        SessionDrafts, "source", property(lambda drafts: None, lambda drafts, source: None), raising=False
    )
    with pytest.raises(EdgeLLMError, match="there is no draft model to measure"):
        bench("--draft", files[1], *ARGUMENTS)
    monkeypatch.setattr(NativeEngine, "batch_invariant", False)
    with pytest.raises(EdgeLLMError, match="a draft model alone drafts"):
        bench("--draft", "lookup", *ARGUMENTS)


def test_that_a_head_does_not_draft_beside_a_gpu_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_certain_head(tmp_path)
    monkeypatch.setattr(FailoverRunner, "open_gpu", lambda runner, progress: True)
    monkeypatch.setattr(NativeEngine, "batch_invariant", False)
    done = CliRunner().invoke(command, [str(files.target), "--draft", str(files.head), *ARGUMENTS])
    assert done.output.count("--gpu-layers 0") == 1, "the note says why, and what to do"
    assert isinstance(done.exception, EdgeLLMError)
    assert str(done.exception) == f"{files.head} does not draft, so there is nothing to measure"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--draft", "off"], "option draft off leaves nothing to compare"),
        (["--draft", "lookup", "--depth", "3"], "option depth does nothing with --draft"),
        (["--draft", "lookup", "-p", "3"], "option prompt_tokens does nothing with --draft"),
        (["--draft", "lookup", "--serve", "1"], "option serve does nothing with --draft"),
        (["--draft-max", "2"], "option draft_max does nothing without --draft"),
        (["--draft-rule", "both"], "option draft_rule does nothing without --draft"),
    ],
)
def test_options_that_do_nothing_are_refused(given: list[str], message: str, bench: Callable[..., Result]) -> None:
    with pytest.raises(OptionError, match=message):
        bench(*given)


def test_a_prompt_that_the_context_does_not_hold_is_named(model_file: ModelFile) -> None:
    with (
        Model.open(model_file(context_length=64)) as model,
        pytest.raises(EdgeLLMError, match="the code prompt of this benchmark is longer than the context of 64; take a"),
    ):
        DraftBench(model, 8).round(lambda status: None)
