"""The report fits one screen: rates, tiers, the worst failures with the exact difference, and what to do next."""

from __future__ import annotations

from shutil import copy
from typing import TYPE_CHECKING

from inline_snapshot import snapshot

from tests.cli.running import done, on_terminal, wrapped_lines

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

_SCREEN = 40


def test_a_report_fits_one_screen_and_breaks_no_word(shop: Shop) -> None:
    wide = on_terminal(400, "report", "--by", "case", "--db", shop.db)

    for width in (80, 120, 200):
        lines = on_terminal(width, "report", "--by", "case", "--db", shop.db)
        assert len(lines) <= _SCREEN
        assert max(map(len, wrapped_lines(lines))) <= width
        assert set(" ".join(lines).replace("─", "").split()) <= set(" ".join(wide).split())


def test_a_report_answers_in_the_order_of_a_readers_questions(shop: Shop) -> None:
    copy(shop.db, "t.duckdb")

    assert "\n".join(on_terminal(100, "report", "--by", "case", "--db", "t.duckdb")) == snapshot("""\
Reliability of clerk, dataset cases (all time)
case    correct  coverage  pass@1             pass@3             pass^3           \n\
──────────────────────────────────────────────────────────────────────────────────
cancel      2/2      100%  .750 [.292, .992]  .950 [.646, 1.00]  .500 [.025, .975]
where       1/2      100%  .500 [.094, .906]  .800 [.257, .999]  .200 [.001, .743]
cancel: insufficient_evidence; leaning needs_improvement; about 74 more conversations would settle
it
where: insufficient_evidence; leaning not_ready; about 8 more conversations would settle it
correct means: everything that the case annotates passes (answers, tool calls, outputs, end state)

What fails (1 of 4 conversations)
1. look_up was given a wrong order: 1 conversation
   look_up in turn 1, step 1: parameter order was "A2", expected "A1"
   in c2

next: otel-agentic conversations show c2 --db t.duckdb
more: otel-agentic report --details --db t.duckdb\
""")


def test_the_printed_commands_work(shop: Shop) -> None:
    out = done("report", "--db", shop.db).out

    commands = [line.partition("otel-agentic ")[2] for line in out.splitlines() if line.startswith("next: ")]
    assert len(commands) == 1
    assert done(*commands[0].split()).out.startswith("conversation c2")


def test_details_print_every_number(shop: Shop) -> None:
    brief, details = (done("report", "--db", shop.db, *options).out for options in ((), ("--details",)))

    assert "per case" in details
    assert "Metrics beyond the outcome" in details
    assert len(details.splitlines()) > 2 * len(brief.splitlines())


def test_a_tier_is_about_the_outcome_only(shop: Shop) -> None:
    out = done("report", "--db", shop.db, "--criterion", "correct,tools").out

    assert "correct: insufficient_evidence" in out
    assert "tools: no tier: a tier is about correct" in out
