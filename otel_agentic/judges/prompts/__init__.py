"""What a model is told when it judges: one file a kind of question, which users may replace with one of their own."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Final, get_args

from otel_agentic.errors import ConfigError
from otel_agentic.judges.base import QuestionKind

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KINDS", "Prompt", "parse_prompt", "prompt_texts"]

#: A question of kind `rubric` brings its own instructions.
KINDS: Final[tuple[QuestionKind, ...]] = tuple(kind for kind in get_args(QuestionKind) if kind != "rubric")
#: Longer instructions than these are some other file.
_MAX_CHARACTERS: Final = 50_000
_FRONT: Final = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_PLACEHOLDER: Final = re.compile(r"\{\{?\s*(?:query|expected|answer|not_answer)\s*\}?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The instructions for one kind of question. `source` is `built-in` or the file of a user."""

    kind: QuestionKind
    version: str
    text: str
    source: str = "built-in"

    @property
    def digest(self) -> str:
        """The hash of the text: another text is another judge, whatever version it claims."""
        return hashlib.blake2b(self.text.encode(), digest_size=8).hexdigest()


def prompt_texts(own: Path | None = None) -> dict[QuestionKind, Prompt]:
    """Return the prompts in force by kind of question.

    Args:
        own: a user's file, which replaces the built-in prompt of its kind; None where there is none.

    Raises:
        ConfigError: the file cannot be read, or is no prompt; names file, field and what is allowed.
    """
    found = {kind: _built_in(kind) for kind in KINDS}
    if own is not None:
        prompt = parse_prompt(_read(own), str(own))
        found[prompt.kind] = prompt
    return found


def parse_prompt(text: str, source: str) -> Prompt:
    r"""Return the prompt of a file.

    Args:
        text: the instructions, after front matter with `name` (the kind of question) and `version`; without front matter
            they are for answers.
        source: the name of the file, for messages.

    Raises:
        ConfigError: see `prompt_texts`.

    >>> parse_prompt("---\nname: parameter\nversion: 7\n---\nCompare.", "own.md")
    Prompt(kind='parameter', version='7', text='Compare.', source='own.md')
    """
    head, body = _split(text.replace("\r\n", "\n"), source)
    kind = next((kind for kind in KINDS if kind == head.get("name", "answer")), None)
    if kind is None:
        raise ConfigError(f"judge.prompt: {source}: name: {head['name']!r}; allowed: {', '.join(KINDS)}")
    if not body:
        raise ConfigError(f"judge.prompt: {source}: holds no instructions")
    if len(body) > _MAX_CHARACTERS:
        raise ConfigError(f"judge.prompt: {source}: {len(body)} characters of instructions; allowed: {_MAX_CHARACTERS}")
    placeholder = _PLACEHOLDER.search(body)
    if placeholder:
        raise ConfigError(
            f"judge.prompt: {source}: {placeholder.group()} is not filled in; what is judged is shown before the "
            "instructions, as JSON with the fields query, expected, answer and not_answer: speak of `answer`"
        )
    return Prompt(kind=kind, version=head.get("version", "own"), text=body, source=source)


def _split(text: str, source: str) -> tuple[dict[str, str], str]:
    """Return the front matter of a file, and what follows it."""
    front = _FRONT.match(text)
    if front is None:
        return {}, text.strip()
    head: dict[str, str] = {}
    for line in front.group(1).split("\n"):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or name not in {"name", "version"} or name in head:
            raise ConfigError(
                f"judge.prompt: {source}: {line!r}; allowed between --- and ---: name and version, once each"
            )
        head[name] = value
    return head, text[front.end() :].strip()


def _built_in(kind: QuestionKind) -> Prompt:
    file = resources.files(__name__) / f"{kind}.md"
    head, body = _split(file.read_text(encoding="utf-8"), f"{kind}.md")
    return Prompt(kind=kind, version=head["version"], text=body)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"judge.prompt: {path}: cannot be read as UTF-8 text: {error}") from error
