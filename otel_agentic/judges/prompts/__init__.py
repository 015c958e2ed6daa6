"""Prompts by kind of question and rubrics of evaluators, read from Markdown files with front matter.

Users may replace a built-in prompt, or the instructions of one rubric, with a file of their own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, get_args

from otel_agentic import plugins
from otel_agentic.config import EvaluatorSettings
from otel_agentic.errors import ConfigError
from otel_agentic.judges.base import Question, QuestionKind, ReplyForm, Rubric
from otel_agentic.regular_files import read_regular

__all__ = [
    "KINDS",
    "MOST_CAUSES",
    "SEVERAL_ACCEPTED",
    "Prompt",
    "installed_rubrics",
    "instructions_of",
    "load_rubric",
    "merge_rubric",
    "own_prompt",
    "parse_prompt",
    "parse_rubric",
    "prompt_texts",
    "read_front",
]

#: A question of kind `rubric` has its own instructions.
KINDS: Final[tuple[QuestionKind, ...]] = tuple(kind for kind in get_args(QuestionKind) if kind != "rubric")
#: Maximum length of the instructions in characters; a longer file is probably not a prompt.
_MAX_CHARACTERS: Final = 50_000
_FRONT: Final = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
#: Appended to the instructions, built-in or a user's, of a question with several accepted answers. It is not part of a
#: prompt, so that verdicts on questions with one answer stay valid; if it changes, `_PROTOCOL` of the LangChain judge
#: must change as well.
SEVERAL_ACCEPTED: Final = (
    "Several answers are accepted here: `expected`, and each text of the list `also_accepted`. Each of them is right by itself, "
    "and true even where you know better. Grade `answer` against the one that it fits best, and against no other."
)
_PLACEHOLDER: Final = re.compile(r"\{\{?\s*(?:query|expected|answer|not_answer)\s*\}?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The instructions for one kind of question, or (kind `rubric`) for the rubric called `name`.

    `source` is `built-in` or the file of a user.
    """

    kind: QuestionKind
    name: str
    version: str
    text: str
    source: str = "built-in"

    @property
    def digest(self) -> str:
        """The hash of the text; part of the judge's version, so that an edit counts even if `version` is unchanged."""
        return hashlib.blake2b(self.text.encode(), digest_size=8).hexdigest()


def prompt_texts(own: Path | None = None) -> dict[QuestionKind, Prompt]:
    """Return the active prompts by kind of question; kind `rubric` only if a user's file replaces a rubric.

    Args:
        own: a user's file, which replaces the built-in prompt of the same kind, or the instructions of one rubric; or None.

    Raises:
        ConfigError: the file cannot be read, or is invalid; the message names the file, the field and the allowed
            values.
    """
    prompts = {kind: _built_in(kind) for kind in KINDS}
    if own is not None:
        prompt = parse_prompt(_read(own), str(own))
        prompts[prompt.kind] = prompt
    return prompts


def parse_prompt(text: str, source: str) -> Prompt:
    r"""Return the prompt of a file.

    Args:
        text: the instructions, after front matter with `name` (the kind of question, or the name of a rubric of an
            installed evaluator) and `version`; without front matter they are for answers.
        source: the name of the file, for messages.

    Raises:
        ConfigError: see `prompt_texts`.

    >>> parse_prompt("---\nname: parameter\nversion: 7\n---\nCompare.", "own.md")
    Prompt(kind='parameter', name='parameter', version='7', text='Compare.', source='own.md')
    """
    head, body = read_front(text, f"judge.prompt: {source}")
    name = head.get("name", "answer")
    kind = _kind_named(name, source)
    placeholder = _PLACEHOLDER.search(body)
    if placeholder:
        raise ConfigError(
            f"judge.prompt: {source}: {placeholder.group()} is not supported; the judged texts precede the instructions, "
            "as JSON with the fields query, expected, answer and not_answer: refer to `answer`"
        )
    return Prompt(kind=kind, name=name, version=head.get("version", "own"), text=body, source=source)


def instructions_of(question: Question, prompts: Mapping[QuestionKind, Prompt]) -> str:
    """Return the instructions for a question: those of its rubric, or those for questions of the same kind.

    Args:
        question: the question.
        prompts: the active prompts, see `prompt_texts`; a user's own takes precedence over the rubric's.
    """
    if question.rubric is None:
        text = prompts[question.kind].text
        return f"{text}\n\n{SEVERAL_ACCEPTED}" if question.also_accepted else text
    own = own_prompt(question.rubric, prompts)
    return question.rubric.instructions if own is None else own.text


def own_prompt(rubric: Rubric, prompts: Mapping[QuestionKind, Prompt]) -> Prompt | None:
    """Return the user's file that replaces the instructions of a rubric, or None."""
    own = prompts.get("rubric")
    return own if own is not None and own.name == rubric.name else None


def _kind_named(name: str, source: str) -> QuestionKind:
    kind = next((kind for kind in KINDS if kind == name), None)
    if kind is not None:
        return kind

    rubrics = installed_rubrics()
    if name not in rubrics:
        raise ConfigError(f"judge.prompt: {source}: name: {name!r}; allowed: {', '.join([*KINDS, *rubrics])}")
    return "rubric"


def read_front(text: str, source: str) -> tuple[dict[str, str], str]:
    """Return the front matter of a prompt file (`name` and `version`, if set), and the instructions after it.

    Raises:
        ConfigError: the front matter has other fields, or the instructions are missing or too long.
    """
    head, body = _split(text.replace("\r\n", "\n"), source)
    if not body:
        raise ConfigError(f"{source}: the instructions are missing")
    if len(body) > _MAX_CHARACTERS:
        raise ConfigError(f"{source}: {len(body)} characters of instructions; allowed: {_MAX_CHARACTERS}")
    return head, body


def _split(text: str, source: str) -> tuple[dict[str, str], str]:
    front = _FRONT.match(text)
    if front is None:
        return {}, text.strip()
    head: dict[str, str] = {}
    for line in front.group(1).split("\n"):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or name not in {"name", "version"} or name in head:
            raise ConfigError(f"{source}: {line!r}; allowed between --- and ---: name and version, once each")
        head[name] = value
    return head, text[front.end() :].strip()


def _built_in(kind: QuestionKind) -> Prompt:
    file = resources.files(__name__) / f"{kind}.md"
    head, body = read_front(file.read_text(encoding="utf-8"), f"{kind}.md")
    return Prompt(kind=kind, name=kind, version=head["version"], text=body)


def _read(path: Path) -> str:
    try:
        return read_regular(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"judge.prompt: {path}: cannot be read as UTF-8 text: {error}") from error


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
        ConfigError: the file is missing, or is not a rubric; the message names the file and the allowed values.
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
    """Return the rubrics of all installed evaluators and the merge rubric, sorted by name.

    Raises:
        PluginError: an evaluator does not load.
        ConfigError: an evaluator does not work without settings.
    """
    evaluators = (plugin.load().from_settings(EvaluatorSettings()) for plugin in plugins.find("evaluators").values())
    rubrics = [*(rubric for evaluator in evaluators for rubric in getattr(evaluator, "rubrics", ())), merge_rubric()]
    return dict(sorted({rubric.name: rubric for rubric in rubrics}.items()))
