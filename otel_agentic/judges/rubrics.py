"""Rubrics of evaluators: read from Markdown files, and looked up by the names of their prompts."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Final

from otel_agentic import plugins
from otel_agentic.config import EvaluatorSettings
from otel_agentic.errors import ConfigError
from otel_agentic.judges.base import ReplyForm, Rubric
from otel_agentic.judges.prompts import KINDS, read_front

#: Format of the name of a rubric: like metrics, a family and a subject.
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*")
#: Maximum number of causes that a judge may name when it merges groups of failures.
MOST_CAUSES: Final = 20


def load_rubric(package: str, file: str, form: ReplyForm) -> Rubric:
    """Return the rubric from a Markdown file that is part of a package.

    Args:
        package: the package that contains the file, as in `__package__`.
        file: path of the file within the package, such as `prompts/helpfulness.md`. It begins with front matter: `name` and
            `version` between lines of `---`; the instructions follow.
        form: the requested form of the reply.

    Raises:
        ConfigError: the file is missing or no rubric; names the file, and the allowed values.
    """
    source = f"{package}/{file}"
    try:
        text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"rubric {source}: cannot be read as UTF-8 text: {error}") from error
    return parse_rubric(text, form, source)


def parse_rubric(text: str, form: ReplyForm, source: str) -> Rubric:
    r"""Return the rubric in a text.

    Args:
        text: front matter with `name` and `version`, and instructions.
        form: the requested form of the reply.
        source: the name of the file, for messages.

    Raises:
        ConfigError: see `load_rubric`.

    >>> from otel_agentic.judges.base import ReplyForm
    >>> parse_rubric("---\nname: house.tone\nversion: 2\n---\nGrade the tone.", ReplyForm(), "tone.md").name
    'house.tone'
    """
    head, body = read_front(text, f"rubric {source}")
    missing = [name for name in ("name", "version") if not head.get(name)]
    if missing:
        raise ConfigError(f"rubric {source}: {' and '.join(missing)} missing between --- and --- at its beginning")
    if not _NAME.fullmatch(head["name"]) or head["name"] in KINDS:
        raise ConfigError(
            f"rubric {source}: name: {head['name']!r}; allowed: words of lower-case letters, digits and _, joined by dots, as in "
            f"agentest.helpfulness; not {', '.join(KINDS)}"
        )
    return Rubric(name=head["name"], version=head["version"], instructions=body, form=form)


@cache
def merge_rubric() -> Rubric:
    """Return the rubric that merges groups of failures with one cause; it belongs to no evaluator."""
    return load_rubric("otel_agentic.judges.prompts", "merge.md", ReplyForm(kind="texts", most=MOST_CAUSES))


def installed_rubrics() -> dict[str, Rubric]:
    """Return the rubrics of all installed evaluators, and the one that merges groups of failures, by name, sorted.

    Raises:
        PluginError: an evaluator does not load.
        ConfigError: an evaluator does not work without settings.
    """
    evaluators = (plugin.load().from_settings(EvaluatorSettings()) for plugin in plugins.find("evaluators").values())
    rubrics = [*(rubric for evaluator in evaluators for rubric in getattr(evaluator, "rubrics", ())), merge_rubric()]
    return dict(sorted({rubric.name: rubric for rubric in rubrics}.items()))
