"""Evaluators from files of a user's own: loaded by `path.py:name`, versioned by content, and refused with the problem."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import EvaluatorSettings, ScoringSettings
from otel_agentic.errors import ConfigError, UsageError
from otel_agentic.evaluators import Subject
from otel_agentic.evaluators.custom import evaluator_of
from otel_agentic.evaluators.registry import chosen
from otel_agentic.testing import conversation, turn
from tests.evaluators.running import evaluate
from tests.snapshots import ending, exactly, passage, raises

SETTINGS = EvaluatorSettings()
#: No `from __future__`: annotations are the types themselves.
CHECKS = """
    from dataclasses import dataclass
    from typing import ClassVar
    from otel_agentic import Metric, MetricScore, Subject, Turn, evaluator

    LIMIT = 10

    @evaluator(name="house.brief", version="3")
    def brief(turn: Turn) -> bool:
        return len(turn.answer) < LIMIT

    class Turns:
        name = "house.turns"
        version = "2"
        metrics = (Metric(name="house.turns", title="T", definition="D", source="S", target="conversation", high=None),)
        needs = frozenset()
        default = True

        def __init__(self, settings):
            self.settings = settings

        @classmethod
        def from_settings(cls, settings):
            return cls(settings)

        def evaluate(self, subject: Subject):
            return [MetricScore(name=self.name, value=float(len(subject.conversation.turns)))]

    @dataclass(frozen=True, slots=True)
    class Frozen:
        name: ClassVar[str] = "house.frozen"
        version: ClassVar[str] = "5"
        metrics: ClassVar = ()
        needs: ClassVar = frozenset()
        default: ClassVar[bool] = True
        limit: int = 3

        def evaluate(self, subject):
            return []

    given = Turns(None)
    frozen = Frozen(limit=7)

    def plain(turn: Turn) -> bool:
        return True
"""


def written(folder: Path, text: str = CHECKS, name: str = "checks.py") -> Path:
    path = folder / name
    path.write_text(dedent(text), encoding="utf-8")
    return path


def refused(given: str) -> str:
    with pytest.raises(UsageError) as caught:
        evaluator_of(given, SETTINGS)
    return str(caught.value)


def test_functions_classes_and_objects_of_a_file_are_evaluators(tmp_path: Path) -> None:
    path = written(tmp_path)
    files = (f"{path}:brief", f"{path}:Turns")
    settings = EvaluatorSettings(metrics=("none",), files=files)
    about = Subject(
        conversation=conversation(turn("a", answer="short"), turn("b", answer="much too long")),
        case=None,
        score=None,
        aligned={},
        settings=ScoringSettings(),
    )

    ran = list(evaluate(chosen(settings).evaluators, [about]))

    assert {"house.brief": [1.0, 0.0], "house.turns": [2.0]} == {
        item.evaluator.name: [score.value for score in item.scores] for item in ran
    }
    assert "house.turns" == evaluator_of(f"{path}:given", SETTINGS).name


def test_the_version_depends_on_the_evaluator_and_the_content_of_its_file(tmp_path: Path) -> None:
    path = written(tmp_path)
    names = ("brief", "Turns", "given", "frozen")
    before = {name: evaluator_of(f"{path}:{name}", SETTINGS).version for name in names}
    written(tmp_path, CHECKS.replace("LIMIT = 10", "LIMIT = 11"))
    after = {name: evaluator_of(f"{path}:{name}", SETTINGS).version for name in names}

    own, digests = zip(*(version.split("-") for version in before.values()), strict=True)
    assert ("3", "2", "2", "5") == own
    assert 1 == len(set(digests))
    assert {name: version for name, version in before.items() if after[name] == version} == {}
    assert 7 == evaluator_of(f"{path}:frozen", SETTINGS).limit  # type: ignore[union-attr]  # of the test's own class


def test_a_file_is_run_once_and_may_import_its_neighbours(tmp_path: Path) -> None:
    written(tmp_path, "COUNT = []\n", "beside_checks.py")
    text = "import beside_checks\nbeside_checks.COUNT.append(1)\n" + dedent(CHECKS)
    path = written(tmp_path, text)
    searched = list(sys.path)

    evaluator_of(f"{path}:brief", SETTINGS)
    evaluator_of(f"{path}:Turns", SETTINGS)

    assert [1] == sys.modules.pop("beside_checks").COUNT
    assert searched == sys.path


@pytest.mark.parametrize("given", ["checks.py", "checks:brief", "checks.py:", "checks.py:two words", ":brief", ""])
def test_a_name_of_another_form_is_refused(given: str) -> None:
    assert exactly(refused(given), given=given) == snapshot(
        "evaluator <given>: give FILE.py:NAME, as in checks.py:polite"
    )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent.py"
    assert exactly(refused(f"{path}:brief"), path=path) == snapshot(
        "evaluator <path>:brief: <path> cannot be read: No such file or directory"
    )


@pytest.mark.parametrize(
    ("name", "explanation"),
    [
        ("absent", "there is no absent in {path}"),
        ("plain", "plain is a function; put @evaluator(...) of otel_agentic before it"),
        ("LIMIT", "LIMIT, of type int, is no evaluator: it has none of evaluate, ask, evaluate_group"),
    ],
)
def test_a_name_that_is_no_evaluator_is_refused_with_the_available_ones(
    tmp_path: Path, name: str, explanation: str
) -> None:
    path = written(tmp_path)
    assert exactly(refused(f"{path}:{name}"), path=path, name=name, value=explanation.format(path=path)) == snapshot(
        "evaluator <path>:<name>: <value>; evaluators in checks.py: brief, Turns, Frozen, given, frozen"
    )


def test_a_file_without_an_evaluator_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, "from otel_agentic.evaluators.custom import FunctionEvaluator\n")
    assert ending(refused(f"{path}:brief"), path=path) == snapshot(
        "there is no brief in <path>; checks.py has no evaluator"
    )


@pytest.mark.parametrize(
    ("text", "explanation"),
    [
        ("x = 1\ny = z\n", "line 2: NameError: name 'z' is not defined"),
        ("x = 1\n\ndef broken(:\n", "line 3: SyntaxError: invalid syntax"),
        ("import nowhere_to_be_found\n", "line 1: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("import json\n\njson.loads('{')\n", "line 3: JSONDecodeError: Expecting property name"),
        ("import sys\nsys.exit(3)\n", "line 2: SystemExit: 3"),
        (
            "from otel_agentic import evaluator\n\n@evaluator()\ndef unsaid(x):\n    return 1\n",
            "line 3: UsageError: evaluator unsaid: the function must take one argument",
        ),
    ],
)
def test_a_file_that_does_not_load_is_refused_with_its_line(tmp_path: Path, text: str, explanation: str) -> None:
    path = written(tmp_path, text)
    assert passage(refused(f"{path}:brief"), path=path, explanation=explanation) == snapshot(
        "evaluator <path>:brief: <path> does not load: <explanation>"
    )
    assert not [name for name in sys.modules if name.startswith("otel_agentic_evaluators_checks_") and "brief" in name]


def test_errors_of_settings_keep_their_message_and_other_errors_name_their_class(tmp_path: Path) -> None:
    actual = """
        from otel_agentic.errors import ConfigError

        class Choosy:
            def evaluate(self, subject): ...

            @classmethod
            def from_settings(cls, settings):
                raise {error}
    """
    path = written(tmp_path, actual.format(error="ConfigError('evaluators.prices: give one')"))
    with raises(ConfigError, snapshot("evaluators.prices: give one")):
        evaluator_of(f"{path}:Choosy", SETTINGS)
    written(tmp_path, actual.format(error="ValueError('x')"))
    assert exactly(refused(f"{path}:Choosy"), path=path) == snapshot(
        "evaluator <path>:Choosy: it cannot be made: ValueError: x"
    )


_TERM = """
    import wording
    from otel_agentic import Turn, evaluator

    @evaluator(name="house.word", labels=("here", "there", "edited"))
    def word(turn: Turn) -> str:
        return wording.WORD
"""


def word_of(folder: Path) -> object:
    actual: Any = evaluator_of(f"{folder / 'checks.py'}:word", SETTINGS)
    return actual.function(None)


def test_files_of_two_folders_import_their_own_neighbours(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        written(tmp_path / name, f"WORD = {name!r}", "wording.py")
        written(tmp_path / name, _TERM)

    assert ["here", "there", "here"] == [word_of(tmp_path / name) for name in ("here", "there", "here")]


def test_an_edited_file_imports_its_edited_neighbour_again(tmp_path: Path) -> None:
    written(tmp_path, "WORD = 'here'", "wording.py")
    written(tmp_path, _TERM)
    first = word_of(tmp_path)
    written(tmp_path, "WORD = 'edited'  # longer, so that no compiled copy is taken for it", "wording.py")
    written(tmp_path, f"{_TERM}\n    # edited\n")

    assert ["here", "edited"] == [first, word_of(tmp_path)]


def test_files_of_one_folder_share_what_they_import(tmp_path: Path) -> None:
    written(tmp_path, "WORD = 'here'", "wording.py")
    written(tmp_path, _TERM)
    written(tmp_path, f"{_TERM}\n    WORDING = wording\n", "others.py")
    word_of(tmp_path)
    before = sys.modules["wording"]

    evaluator_of(f"{tmp_path / 'others.py'}:word", SETTINGS)

    assert before is sys.modules["wording"]
