"""Judged rates in the report, corrected by people's verdicts: with what, and why not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import Commands
from otel_agentic.engine.engine import Engine
from otel_agentic.judges import Question, Verdict
from otel_agentic.stats.judge_error import VerdictPair, corrected
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from tests.builders import feed
from tests.judges.parts import PlainJudge
from tests.stores import CopyOf, settings_for

CASES = [("cases.jsonl", json.dumps({"case_id": "hotel", "turns": [{"query": "Which hotel?", "answer": "The Ritz."}]}))]
#: Conversations: the verdict of the judge, and the truth. The judge passes 8 of 10 wrong answers in 3 cases of 10.
VERDICTS = {f"c{number:02}": number < 48 for number in range(60)}
TRUE = {name: index < 40 for index, name in enumerate(VERDICTS)}
LABELLED = list(VERDICTS)[::3]


def say(question: Question) -> Verdict:
    return Verdict(score=1.0 if question.answer.startswith("good") else 0.0, reasoning="")


def labels(names: list[str] = LABELLED, turn: str = "") -> str:
    """Return people's verdicts on some conversations, or on a turn of each, as CSV."""
    verdicts = "".join(f"{name},{turn},{'pass' if TRUE[name] else 'fail'}\n" for name in names)
    return f"conversation_id,turn,verdict\n{verdicts}"


@pytest.fixture(scope="module")
def judged_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with sixty judged conversations, attempts of one case. Leave it as it is."""
    db = tmp_path_factory.mktemp("judged") / "judged.duckdb"
    with Engine(settings_for(db), create=True) as engine:
        engine.runner.judge = PlainJudge(say)
        tell(engine, *VERDICTS)
        Commands(engine).evaluate(cases=CASES, metrics=["none"])
    return db


@pytest.fixture
def engine(copy_of: CopyOf, judged_file: Path) -> Engine:
    """An engine on a copy of that file."""
    engine = copy_of(judged_file)
    engine.runner.judge = PlainJudge(say)
    return engine


@pytest.fixture
def commands(engine: Engine) -> Commands:
    return Commands(engine)


@pytest.fixture(scope="module")
def calibrated_file(judged_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the file whose judge was calibrated with a random sample. Leave it as it is."""
    db = tmp_path_factory.mktemp("calibrated") / "calibrated.duckdb"
    shutil.copy(judged_file, db)
    with Engine(settings_for(db)) as engine:
        engine.runner.judge = PlainJudge(say)
        calibrated(Commands(engine), labels())
    return db


@pytest.fixture
def calibrated_engine(copy_of: CopyOf, calibrated_file: Path) -> Engine:
    """An engine on a copy of that file."""
    engine = copy_of(calibrated_file)
    engine.runner.judge = PlainJudge(say)
    return engine


def tell(engine: Engine, *names: str, agent: str = "clerk", turns: int = 1) -> None:
    """Store conversations; the judge looks at the first word of an answer."""
    scripts = []
    for name in names:
        script = AgentRunScript(conversation_id=name, agent_name=agent).ask("Which hotel?")
        script = script.answers(f"{'good' if VERDICTS.get(name, True) else 'bad'} {name}")
        scripts.append(script.ask("And now?").answers("Sleep.") if turns > 1 else script)
    feed(engine, *(speak_genai(script, start_ns=NOON_NS + at * SECOND_NS) for at, script in enumerate(scripts)))


def calibrated(commands: Commands, text: str, *, random_sample: bool = True) -> None:
    commands.judge_calibrate(labels=[("people.csv", text)], random_sample=random_sample)


def only_group(commands: Commands) -> dict[str, Any]:
    """Return the only group of a report; corrections do not depend on the estimator, so the quickest."""
    (group,) = commands.report(k=[1], estimator="plugin")["groups"]
    return dict(group)


def test_raw_and_corrected_rates_stand_side_by_side(calibrated_engine: Engine) -> None:
    commands = Commands(calibrated_engine)
    result = only_group(commands)["corrected"]

    def of_its_own(name: str) -> tuple[str, str]:
        return ("", name)  # all are attempts of one case: as good as independent, see `cluster`

    pairs = [VerdictPair(judge=VERDICTS[name], human=TRUE[name], case=of_its_own(name)) for name in LABELLED]
    rest = [(of_its_own(name), passed) for name, passed in VERDICTS.items() if name not in LABELLED]
    expected = corrected(pairs, rest, 0.95)
    for name, estimate in (("rogan_gladen", expected.rogan_gladen), ("ppi", expected.ppi)):
        assert (estimate.value, estimate.lower, estimate.upper) == pytest.approx(
            tuple(result[name][key] for key in ("value", "lower", "upper"))
        )
        assert (20, 40, 0.95) == tuple(result[name][key] for key in ("n_human", "n_judge", "level"))
    assert (0.8, 60) == (result["raw"]["value"], result["raw"]["n"])
    assert (14 / 20, 20) == pytest.approx((result["human"]["value"], result["human"]["n"]))
    assert expected.power == result["ppi"]["lambda"]
    assert ("plain", "1") == (result["judge"], result["judge_version"])


def test_without_labels_there_is_no_correction(commands: Commands) -> None:
    group = only_group(commands)

    assert (None, None) == (group["corrected"], group["not_corrected"])


def test_labels_picked_by_hand_correct_nothing(commands: Commands) -> None:
    calibrated(commands, labels(), random_sample=False)
    group = only_group(commands)

    assert group["corrected"] is None
    assert group["not_corrected"] == snapshot("the labels are not a random sample (`judge calibrate --random-sample`)")


def test_labels_picked_by_hand_take_nothing_from_an_earlier_random_sample(calibrated_engine: Engine) -> None:
    commands = Commands(calibrated_engine)
    before = only_group(commands)["corrected"]
    calibrated(commands, labels(["c59"]), random_sample=False)

    assert before == only_group(commands)["corrected"]


def test_the_newest_random_sample_counts(calibrated_engine: Engine) -> None:
    commands = Commands(calibrated_engine)
    calibrated(commands, labels(list(VERDICTS)[:30]))

    assert 30 == only_group(commands)["corrected"]["ppi"]["n_human"]


def test_too_few_labels_are_reported(commands: Commands) -> None:
    calibrated(commands, labels(LABELLED[:9]))

    assert only_group(commands)["not_corrected"] == snapshot(
        "only 9 of its conversations are labelled in the random sample; 10 are needed"
    )


def test_a_group_without_a_label_is_reported_as_such(calibrated_engine: Engine) -> None:
    engine, commands = calibrated_engine, Commands(calibrated_engine)
    tell(engine, "other", agent="desk")
    commands.evaluate(metrics=["none"])

    clerk, desk = commands.report(k=[1], estimator="plugin")["groups"]
    assert 20 == clerk["corrected"]["ppi"]["n_human"]
    assert desk["not_corrected"] == snapshot(
        "none of its conversations is labelled in the random sample; 10 are needed"
    )


def test_labels_held_against_another_version_of_the_judge_do_not_count(calibrated_engine: Engine) -> None:
    engine, commands = calibrated_engine, Commands(calibrated_engine)
    engine.runner.judge = PlainJudge(say, version="2")
    engine.runner.remember([], [])  # sets the active evaluation again
    commands.evaluate(metrics=["none"])

    assert only_group(commands)["not_corrected"] == snapshot(
        "people's verdicts were compared with version 1 of plain, but version 2 was the judge here"
    )


def test_scores_of_two_judges_side_by_side_are_not_corrected(calibrated_engine: Engine) -> None:
    engine, commands = calibrated_engine, Commands(calibrated_engine)
    engine.runner.judge = PlainJudge(say, version="2")
    engine.runner.remember([], [])
    commands.evaluate(since_ns=NOON_NS + 40 * SECOND_NS)

    assert only_group(commands)["not_corrected"] == snapshot(
        "the scores are from several judges or versions: plain 1, plain 2"
    )


def test_verdicts_on_turns_correct_no_rate_of_conversations(commands: Commands) -> None:
    calibrated(commands, labels(turn="1"))
    group = only_group(commands)

    assert group["corrected"] is None
    assert group["not_corrected"] == snapshot(
        "people labelled turns only; rates of conversations need labels of conversations"
    )


def test_a_conversation_that_went_on_since_it_was_labelled_counts_as_not_labelled(calibrated_engine: Engine) -> None:
    engine, commands = calibrated_engine, Commands(calibrated_engine)
    tell(engine, LABELLED[0], turns=2)
    commands.evaluate(metrics=["none"])
    ppi = only_group(commands)["corrected"]["ppi"]

    assert (19, 41) == (ppi["n_human"], ppi["n_judge"])


def test_a_given_label_is_no_verdict_of_the_judge(calibrated_engine: Engine) -> None:
    commands = Commands(calibrated_engine)
    before = only_group(commands)["corrected"]
    commands.evaluate(labels=[("given.csv", "conversation_id,verdict\nc59,pass\nc58,pass\n")])
    group = only_group(commands)

    assert (50, before["raw"]["value"]) == (group["c"], group["corrected"]["raw"]["value"])
