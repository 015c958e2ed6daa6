"""Tables fit the terminal: numbers stay whole, text folds, and omitted columns are named."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from rich.cells import cell_len
from rich.console import Console

from otel_agentic.render.terminal import Column, differing_and_shared, fits, print_table, say, text
from tests.cli.running import Terminal, on_terminal, run, wrapped_lines
from tests.snapshots import item, passage

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

_COLUMNS = [
    Column(name="agent"),
    Column(name="n", right=True),
    Column(name="pass^k", unfolded=True),
    Column(name="example", least=20, spare=2),
    Column(name="share", right=True, spare=1),
]
_ROWS = [["airline-support-agent", 200, ".420 [.321, .526]", "an example of many words, too long for a line", "15%"]]


def drawn(width: int, columns: list[Column], rows: list[list[object]], capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_table(Console(file=StringIO(), width=width), columns, rows)
    return capsys.readouterr().out.splitlines()


def test_a_wide_terminal_shows_all_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    names, _, *rows = drawn(120, _COLUMNS, _ROWS, capsys)

    assert ["agent", "n", "pass^k", "example", "share"] == names.split()
    assert rows == snapshot(
        ["airline-support-agent  200  .420 [.321, .526]  an example of many words, too long for a line    15%"]
    )


def test_text_folds_before_anything_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    lines = drawn(80, _COLUMNS, _ROWS, capsys)

    assert "example" in lines[0]
    assert ".420 [.321, .526]" in lines[2]
    assert len(lines) > 3


def test_spare_columns_are_left_out_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    lines = drawn(48, _COLUMNS, _ROWS, capsys)

    assert ["agent", "n", "pass^k"] == lines[0].split()
    assert ".420 [.321, .526]" in lines[2]
    assert passage(lines[-1]) == snapshot("(example, share: not shown, the terminal is too narrow; --format")


def test_numbers_lose_no_digit_even_on_the_narrowest_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    lines = drawn(20, text("k", "value"), [["1", ".420 [.321, .526] and more"]], capsys)

    assert "1.420[.321,.526]andmore" == "".join("".join(lines[2:]).split())


def test_long_names_are_broken_after_punctuation(capsys: pytest.CaptureFixture[str]) -> None:
    name = "ragas.tool_call_accuracy_unordered"
    rows: list[list[object]] = [[name, '{"origin":"Paris","destination":"Lyon"}']]

    assert drawn(48, text("metric", "arguments"), rows, capsys)[2:] == snapshot(
        ['ragas.tool_call_         {"origin":"Paris",', 'accuracy_unordered       "destination":"Lyon"}']
    )


@given(
    width=st.integers(40, 200),
    rows=st.lists(st.tuples(st.text("ab ü語_", max_size=60), st.integers(0, 10**6)), max_size=4),
)
def test_no_line_is_wider_than_the_terminal(width: int, rows: list[tuple[str, int]]) -> None:
    columns = [Column(name="tool"), Column(name="n", right=True), Column(name="x", spare=1)]
    out = Console(file=StringIO(), width=width)
    assert fits(columns, [[name, number, ""] for name, number in rows], width)
    with redirect_stdout(StringIO()) as output:
        print_table(out, columns, [[name, number, name] for name, number in rows])
    assert all(cell_len(line) <= width for line in output.getvalue().splitlines() if "too narrow" not in line)


def test_names_whose_values_agree_go_to_the_title() -> None:
    rows = [
        SimpleNamespace(agent="a", version=None, tag=None),
        SimpleNamespace(agent="a", version="1", tag=None),
    ]

    assert (["version"], {"agent": "a"}) == differing_and_shared(rows, ["agent", "version", "tag"])


def test_lines_in_a_pipe_are_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    line = "word " * 100
    say(Console(file=StringIO(), width=40), line)

    assert [line.rstrip()] == capsys.readouterr().out.splitlines()


@given(
    names=st.tuples(*[st.lists(st.text("abcdefghij", min_size=1, max_size=13), min_size=1, max_size=5)] * 3),
    separator=st.sampled_from("-_./"),
)
def test_words_are_never_cut_where_a_line_can_hold_them(names: tuple[list[str], ...], separator: str) -> None:
    cells = [separator.join(parts) for parts in names]
    columns = [Column(name="service"), Column(name="conversation", unfolded=True), Column(name="tool", least=20)]
    with redirect_stdout(StringIO()) as output:
        print_table(Console(file=StringIO(), width=80), columns, [cells])

    printed = {part for term in output.getvalue().split() for part in re.split(r"[-_./]", term)}
    assert {part for parts in names for part in parts} <= printed


def test_rows_that_do_not_fit_without_cutting_words_are_lists(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [Column(name="framework"), *(Column(name=f"share {number}", right=True) for number in range(4))]

    lines = drawn(40, columns, [["openinference-langchain", "100%", "90%", "80%", "70%"]], capsys)

    assert lines == snapshot(
        [
            "row 1",
            "framework  openinference-langchain",
            "share 0    100%",
            "share 1    90%",
            "share 2    80%",
            "share 3    70%",
        ]
    )


def test_errors_are_wrapped_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")

    wrapped = run("report", "--metrics", "nope", "--server", "http://127.0.0.1:9", err=Terminal()).lines
    unwrapped = run("report", "--metrics", "nope", "--server", "http://127.0.0.1:9").lines

    assert (1, " ".join(line.strip() for line in wrapped)) == (len(unwrapped), unwrapped[0])
    assert max(map(len, wrapped)) <= 80 < len(unwrapped[0])


@pytest.mark.parametrize("width", [80, pytest.param(160, marks=pytest.mark.slow)])
def test_no_command_prints_wider_than_the_terminal(shop: Shop, width: int) -> None:
    on_db = ("--db", shop.db)
    commands: list[tuple[str | Path, ...]] = [
        ("report", "--by", "case", *on_db),
        ("tools", "failing", *on_db),
        ("conversations", "list", *on_db),
        ("conversations", "show", "c2", *on_db),
        ("conversations", "list", "--open", *on_db),
        ("failures", *on_db),
        ("evaluate", "--details", *on_db),
        ("truth", "list", *on_db),
        ("truth", "matches", *on_db),
        ("query", "SELECT * FROM v_failing_tools", *on_db),
        ("config", "show"),
        ("plugins",),
        ("doctor",),
        ("doctor", shop.spans),
    ]
    for command in commands:
        lines = on_terminal(width, *command)
        assert lines
        assert all(cell_len(line) <= width for line in wrapped_lines(lines)), command


def test_a_narrow_terminal_gets_a_table_for_each_group(shop: Shop) -> None:
    lines = on_terminal(80, "report", "--by", "case", "-k", "1", "--details", "--db", shop.db)

    assert item(lines) == snapshot("cancel: 2 of 2 correct, coverage 100%, insufficient_evidence")
    assert "1  .750 [.292, .992]  .750 [.292, .992]  1.00 [.342, 1.00]  1.00 [.342, 1.00]" in lines
    assert item(lines) == snapshot("where: 1 of 2 correct, coverage 100%, insufficient_evidence")
    output_lines = on_terminal(140, "report", "--by", "case", "-k", "1", "--details", "--db", shop.db)
    rates = ["pass@k,", "pooled", "pass^k,", "pooled", "pass@k,", "per", "case", "pass^k,", "per", "case"]
    assert ["case", "correct", "coverage", "tier", "k", *rates] == output_lines[1].split()
