"""The output of a gate for CI systems: JUnit XML, GitHub's commands and summary, Markdown, JSON, all with untrusted names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from inline_snapshot import snapshot

from otel_agentic.render.gate import GateOutcome, command, junit_of
from tests.cli.judged_runs import judged_store
from tests.cli.partial import partial
from tests.cli.running import done, run
from tests.snapshots import ending, item, opening, passage

HOSTILE = '::error::x\r\n##[error]y\n::add-mask::b|<i>\x1b[31m&]]>"\ufffe\u202e%'


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of an agent with a hostile name, 3 of 4 right."""
    return judged_store(tmp_path_factory.mktemp("hostile"), {name: [name != "A"] for name in "ABCD"}, agent=HOSTILE)


ARGUMENTS = (
    "--min-n",
    "1",
    "--min-success",
    "0.9",
    "--min-coverage",
    "1",
    "--threshold",
    "helpfulness=4",
    "--allow-no-data",
    "helpfulness",
)


def gate(store: Path, *arguments: str | Path) -> str:
    ran = run("gate", "--db", store, *ARGUMENTS, *arguments)
    assert (1, "") == (ran.code, ran.err)
    return ran.out


class TestJUnit:
    def test_each_condition_is_a_test_case(self, store: Path, tmp_path: Path) -> None:
        gate(store, "--junit", tmp_path / "gate.xml")
        top = ET.fromstring((tmp_path / "gate.xml").read_bytes())  # noqa: S314 — our own file
        (suite,) = top
        counts = {"tests": "5", "failures": "1", "errors": "0", "skipped": "1"}
        assert [counts] * 2 == [{name: element.get(name) for name in counts} for element in (top, suite)]
        by_name = {case.get("name"): [child.tag for child in case] for case in suite}
        assert {
            "evaluated >= 1": ["system-out"],
            "coverage >= 1.00": ["system-out"],
            "success >= .900": ["failure"],
            "agentest.helpfulness >= 4": ["skipped"],
            "failures, critical 0": ["system-out"],
        } == by_name

    def test_the_failure_says_what_was_found_and_why(self, store: Path) -> None:
        (failure,) = ET.fromstring(gate(store, "--format", "junit")).iter("failure")  # noqa: S314 — same
        assert "fail" == failure.get("type")
        assert opening(failure.get("message") or "") == snapshot(
            "success >= .900: fail, .750 [.194, .994], the estimate is below it"
        )

    def test_what_is_without_data_and_not_allowed_is_a_failure(self, store: Path) -> None:
        ran = run("gate", "--db", store, "--min-n", "1", "--threshold", "helpfulness=4", "--format", "junit")
        (failure,) = ET.fromstring(ran.out).iter("failure")  # noqa: S314 — same
        assert "no_data" == failure.get("type")

    def test_untrusted_names_are_text_of_one_line(self, store: Path) -> None:
        (name,) = {case.get("classname") for case in ET.fromstring(gate(store, "--format", "junit")).iter("testcase")}  # noqa: S314 — same
        assert name is not None
        assert name.startswith("gate.::error::x")
        assert '|<i>\ufffd[31m&]]>"' in name
        assert name.isprintable()

    def test_every_character_of_unicode_gives_xml_that_can_be_read(self) -> None:
        everything = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x11000), 0x10FFFF]))
        row = {
            "condition": everything,
            "kind": "metric",
            "agent": everything,
            "operator": ">=",
            "limit": 1,
            "n": 1,
            "verdict": "fail",
            "reason": everything,
            "value": 0.5,
            "lower": None,
            "upper": None,
            "label": None,
            "allowed": False,
        }
        (case,) = ET.fromstring(junit_of(partial(GateOutcome, {"result": {"rows": [row]}}))).iter("testcase")  # noqa: S314 — same
        assert case.get("classname")


class TestGitHub:
    def test_the_table_is_not_obeyed_and_what_fails_is_annotated(self, store: Path) -> None:
        lines = gate(store, "--format", "github").splitlines()
        token = re.fullmatch(r"::stop-commands::([0-9a-f]{32})", lines[0])
        assert token
        again = lines.index(f"::{token[1]}::")
        error, warning = lines[again + 1 :]
        assert error == snapshot(
            "::error title=otel-agentic gate%3A success::success >= .900: fail, .750 [.194, .994], the estimate is below it; the 95 %25 interval extends up to .994"
        )
        assert opening(warning) == snapshot(
            "::warning title=otel-agentic gate%3A agentest.helpfulness::agentest.helpfulness >= 4: no data, allowed, "
        )

    def test_each_run_has_a_word_of_its_own_to_go_on(self, store: Path) -> None:
        assert gate(store, "--format", "github").splitlines()[0] != gate(store, "--format", "github").splitlines()[0]

    def test_a_pass_is_a_notice(self, store: Path) -> None:
        last = done("gate", "--db", store, "--min-n", "1", "--format", "github", "--agent", "*").out.splitlines()[-1]
        assert opening(last) == snapshot("::notice title=otel-agentic gate::gate passed: 2 conditions of ::error::x")

    def test_the_summary_of_the_step_is_added_to(
        self, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        summary = tmp_path / "summary.md"
        summary.write_text("before\n")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
        gate(store)
        assert "before\n" == summary.read_text()  # asked for by --format github alone
        gate(store, "--format", "github")
        lines = summary.read_text("utf-8").splitlines()
        assert "before" == lines[0]
        assert opening(lines[1]) == snapshot("## Gate failed: 1 of 5 conditions of ")
        assert item(lines) == snapshot("| condition | wanted | found | n | verdict | why |")

    def test_a_summary_that_cannot_be_written_changes_no_verdict(
        self, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
        ran = run("gate", "--db", store, "--min-n", "1", "--format", "github")
        assert 0 == ran.code
        assert ending(ran.err) == snapshot("the summary is left out\n")

    @pytest.mark.parametrize("text", [HOSTILE, "a\nb", "::x::", "100%", "%0A", ",:"])
    def test_a_command_is_one_line_for_any_text(self, text: str) -> None:
        line = command("error", text, text)
        assert 1 == len(line.splitlines())
        head, title, message = re.fullmatch(r"(::error title=)([^:,\n\r]*)::(.*)", line).groups()  # type: ignore[union-attr]  # it fits
        assert "::error title=" == head
        assert title.replace("%3A", ":").replace("%2C", ",") == message


def test_markdown_is_shown_as_it_is(store: Path) -> None:
    lines = gate(store, "--format", "markdown").splitlines()
    assert opening(lines[0]) == snapshot(
        "## Gate failed: 1 of 5 conditions of ::error::x\ufffd \\#\\#\\[error\\]y ::add-mask::b\\|\\<i\\>"
    )
    rows = [line for line in lines if line.startswith("| ")]
    assert 6 == len(rows)
    assert {7} == {len(re.findall(r"(?<!\\)\|", row)) for row in rows}


def test_json_has_every_number(store: Path, tmp_path: Path) -> None:
    gate(store, "--json", tmp_path / "gate.json")
    payload: dict[str, Any] = json.loads((tmp_path / "gate.json").read_text())
    assert (False, 4, 4, 0.95, "estimate", None) == (
        payload["passed"],
        payload["conversations"],
        payload["evaluated"],
        payload["level"],
        payload["bound"],
        payload["baseline"],
    )
    success = next(row for row in payload["rows"] if row["condition"] == "success")
    assert (0.75, 4, "fail", ">=", 0.9) == (
        success["value"],
        success["n"],
        success["verdict"],
        success["operator"],
        success["limit"],
    )


def test_what_goes_to_a_file_leaves_one_line_on_the_terminal(store: Path, tmp_path: Path) -> None:
    out = gate(store, "--format", "markdown", "--output", tmp_path / "gate.md")
    assert 1 == len(out.splitlines())
    assert out.endswith(f"written to {tmp_path / 'gate.md'}\n")
    assert (tmp_path / "gate.md").read_text("utf-8").startswith("## Gate failed: ")
    assert "verdict" in gate_file(store, tmp_path).splitlines()[0]


def gate_file(store: Path, folder: Path) -> str:
    gate(store, "--output", folder / "gate.txt")
    return (folder / "gate.txt").read_text("utf-8")


def test_a_file_that_cannot_be_written_is_named(store: Path, tmp_path: Path) -> None:
    ran = run("gate", "--db", store, "--junit", tmp_path / "no" / "gate.xml")
    assert 2 == ran.code
    assert passage(ran.err) == snapshot("gate.xml: No such file or directory; give a file that can be written")
