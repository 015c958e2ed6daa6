"""The cost of a run that asks an LLM judge: one line before it, and a question if it exceeds the limits of the settings."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from otel_agentic.errors import UsageError
from otel_agentic.render.terminal import console, say
from otel_agentic.render.text import plural

if TYPE_CHECKING:
    from otel_agentic.config import JudgeSettings
    from otel_agentic.results.evaluation import JudgeQuestions

yes_option = click.option(
    "--yes",
    is_flag=True,
    help="Do not ask before a run that exceeds judge.confirm_calls or judge.confirm_cost_usd.",
)


def confirm_cost(expected: JudgeQuestions, settings: JudgeSettings, *, quiet: bool) -> None:
    """Print what a run will ask its judge; above a limit of the settings, ask on a terminal whether to run it.

    Raises:
        UsageError: a limit is exceeded, and there is no terminal, or the answer is no.
    """
    if not expected.calls:
        return
    limits: dict[str, tuple[float | None, float | None]] = {
        "judge.confirm_calls": (expected.calls, settings.confirm_calls),
        "judge.confirm_cost_usd": (expected.cost_usd, settings.confirm_cost_usd),
    }
    exceeded = [
        f"{name} {limit:,}"
        for name, (value, limit) in limits.items()
        if value is not None and limit is not None and value > limit
    ]
    need = f"judge {expected.judge} needs about {plural(expected.calls, 'call')}{_tokens_and_cost(expected)}"
    if not exceeded:
        if not quiet:
            say(console(stderr=True), need)
        return
    message = f"{need}, more than {' and '.join(exceeded)}"
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise UsageError(
            f"{message}; pass --yes to run it, or choose fewer metrics or conversations (--metrics, --since)"
        )
    if not click.confirm(f"{message}. Run it?", err=True):
        raise UsageError("nothing was evaluated")


def _tokens_and_cost(expected: JudgeQuestions) -> str:
    tokens = "" if expected.tokens is None else f" and {expected.tokens:,} tokens"
    return tokens if expected.cost_usd is None else f"{tokens}, ${expected.cost_usd:,.2f}"
