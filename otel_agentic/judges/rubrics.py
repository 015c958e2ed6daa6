"""Rubrics of evaluators: read from Markdown files, and found by the names of their prompts."""

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

#: What a rubric may be called: as metrics are, a family and what is judged.
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*")
#: Causes that a judge may name when it joins groups of failures.
MOST_CAUSES: Final = 20


def load_rubric(package: str, file: str, form: ReplyForm) -> Rubric:
    """Return the rubric in a Markdown file that is shipped with a package.

    Args:
        package: the package that the file belongs to, as in `__package__`.
        file: the file, from the folder of the package on, as in `prompts/helpfulness.md`. It begins with front matter:
            `name` and `version` between lines of `---`; the instructions follow.
        form: what a model is to reply with.

    Raises:
        ConfigError: there is no such file, or it is no rubric; names the file, and what is allowed.
    """
    source = f"{package}/{file}"
    try:
        text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"rubric {source}: cannot be read as UTF-8 text: {error}") from error
    return parse_rubric(text, form, source)


def parse_rubric(text: str, form: ReplyForm, source: str) -> Rubric:
    r"""Return the rubric that a text is.

    Args:
        text: front matter with `name` and `version`, and instructions.
        form: what a model is to reply with.
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
        raise ConfigError(f"rubric {source}: no {' and no '.join(missing)} between --- and --- at its beginning")
    if not _NAME.fullmatch(head["name"]) or head["name"] in KINDS:
        raise ConfigError(
            f"rubric {source}: name: {head['name']!r}; allowed: words of small letters, digits and _, joined by dots, as in "
            f"agentest.helpfulness; not {', '.join(KINDS)}"
        )
    return Rubric(name=head["name"], version=head["version"], instructions=body, form=form)


@cache
def merge_rubric() -> Rubric:
    """Return how a judge is asked which groups of failures have one cause; it belongs to no evaluator."""
    return load_rubric("otel_agentic.judges.prompts", "merge.md", ReplyForm(kind="texts", most=MOST_CAUSES))


def installed_rubrics() -> dict[str, Rubric]:
    """Return the rubrics of all installed evaluators, and the one that joins groups of failures, by name, sorted.

    Raises:
        PluginError: an evaluator does not load.
        ConfigError: an evaluator does not work without settings.
    """
    made = (plugin.load().from_settings(EvaluatorSettings()) for plugin in plugins.find("evaluators").values())
    rubrics = [*(rubric for evaluator in made for rubric in getattr(evaluator, "rubrics", ())), merge_rubric()]
    return dict(sorted({rubric.name: rubric for rubric in rubrics}.items()))
