"""Check the language: phrases in prose and messages, and the words in names, by the lists in `tools/words.toml`.

Python files are checked in their docstrings, comments, string literals of several words, and in the names that they
define; Markdown pages in their prose, without code. Each finding is printed as `file:line: word -> suggestion`.

Run it as `python -m tools.check_words [--count] [PATH ...]`.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from tools.generated import ROOT

WORDS: Final = ROOT / "tools" / "words.toml"
CHECKED: Final = (
    "otel_agentic", "collectors", "tests", "tools", "benchmarks", "examples", "docs", "deploy", "README.md",
    "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md",
)  # fmt: skip
_FENCE: Final = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`\n]+`")
_LINK_TARGET: Final = re.compile(r"\]\([^)\s]*\)|<https?:[^>]*>")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PROSE: Final = re.compile(r"[A-Za-z]{2,},? [A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """A pattern of prose that is rejected, and what to write instead."""

    pattern: re.Pattern[str]
    suggestion: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemption:
    """A word that is allowed in some files, in names or phrases that match `name`."""

    word: str
    where: tuple[str, ...]
    name: re.Pattern[str]

    def covers(self, path: str, word: str, text: str) -> bool:
        """Return whether a word found in `text` is allowed in a file."""
        return (
            self.word in {"*", word.lower()}
            and any(fnmatch(path, pattern) for pattern in self.where)
            and self.name.search(text) is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The word lists: phrases of prose, words forbidden as part of a name and as a whole name, exemptions."""

    phrases: tuple[Phrase, ...]
    anywhere: dict[str, str]
    alone: dict[str, str]
    exemptions: tuple[Exemption, ...]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Finding:
    """A rejected word: its file (from the repository root), line, and the suggestion."""

    path: str
    line: int
    word: str
    suggestion: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word} -> {self.suggestion}"


def load_rules(path: Path = WORDS) -> Rules:
    """Read the word lists."""
    lists = tomllib.loads(path.read_text(encoding="utf-8"))
    return Rules(
        phrases=tuple(
            Phrase(
                pattern=re.compile(entry["match"].replace(" ", r"\s+"), re.IGNORECASE),
                suggestion=entry["write"],
            )
            for entry in lists["phrase"]
        ),
        anywhere=lists["anywhere"],
        alone=lists["alone"],
        exemptions=tuple(
            Exemption(
                word=entry["word"],
                where=tuple(entry["where"]),
                name=re.compile(entry.get("name", ""), re.IGNORECASE),
            )
            for entry in lists["allow"]
        ),
    )


def check_python(path: str, source: str, rules: Rules) -> list[Finding]:
    """Return the findings in a Python file, sorted by line."""
    tree = ast.parse(source, filename=path)
    names = ((line, name) for line, name in [(1, Path(path).stem), *_defined_names(tree)])
    texts = [*_strings(tree), *_comments(source)]
    return sorted({*_check_names(path, names, rules), *_check_texts(path, texts, rules)})


def check_markdown(path: str, text: str, rules: Rules) -> list[Finding]:
    """Return the findings in the prose of a Markdown page, sorted by line."""
    prose = text
    for pattern in (_FENCE, _CODE, _LINK_TARGET):
        prose = pattern.sub(_blank, prose)
    return sorted(set(_check_texts(path, [(1, prose)], rules)))


def _blank(match: re.Match[str]) -> str:
    """Replace code by filler of the same number of lines, so that line numbers stay and no phrase spans it."""
    return "\n" * match[0].count("\n") or "`"


def _defined_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the names that a file defines: functions, classes, arguments, variables and attributes, with lines."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.Import() | ast.ImportFrom():
                yield from ((node.lineno, alias.asname) for alias in node.names if alias.asname)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case _:
                pass


def _strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the string literals that read as prose (docstrings and messages), with the line where they begin."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _PROSE.search(node.value):
            yield node.lineno, node.value


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments; those on lines of their own that follow each other are one text."""
    first, lines = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        own_line = not token.line[: token.start[1]].strip()
        if not (lines and own_line and token.start[0] == first + len(lines)):
            if lines:
                yield first, "\n".join(lines)
            first, lines = token.start[0], []
        lines.append(token.string.lstrip("#"))
    if lines:
        yield first, "\n".join(lines)


def _check_names(path: str, names: Iterable[tuple[int, str]], rules: Rules) -> Iterator[Finding]:
    for line, name in names:
        snake = _CAMEL.sub("_", name).lower().strip("_")
        rejected = [(word, text) for word, text in rules.anywhere.items() if f"_{word}_" in f"_{snake}_"]
        if snake in rules.alone:
            rejected.append((snake, rules.alone[snake]))
        for word, suggestion in rejected:
            if not any(exemption.covers(path, word, name) for exemption in rules.exemptions):
                yield Finding(path=path, line=line, word=f"name `{name}`", suggestion=suggestion)


def _check_texts(path: str, texts: Iterable[tuple[int, str]], rules: Rules) -> Iterator[Finding]:
    for first_line, text in texts:
        for phrase in rules.phrases:
            for match in phrase.pattern.finditer(text):
                word = " ".join(match[0].split()).strip(" ,")
                around = text[max(0, match.start() - 60) : match.end() + 60]
                if any(exemption.covers(path, word, around) for exemption in rules.exemptions):
                    continue
                line = first_line + text.count("\n", 0, match.start())
                yield Finding(path=path, line=line, word=f'"{word}"', suggestion=phrase.suggestion)


def findings(paths: Iterable[Path], rules: Rules) -> Iterator[Finding]:
    """Yield the findings in files, and in the Python and Markdown files below folders."""
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            name = file.relative_to(ROOT).as_posix()
            if file.suffix == ".py":
                yield from check_python(name, file.read_text(encoding="utf-8"), rules)
            elif file.suffix == ".md":
                yield from check_markdown(name, file.read_text(encoding="utf-8"), rules)


def main(arguments: list[str] | None = None) -> int:
    """Print the findings, or with `--count` their number for each package; return 1 if there are any."""
    parser = argparse.ArgumentParser(description="Check the language of code and pages.")
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files or folders (default: all checked)")
    parser.add_argument("--count", action="store_true", help="print the number of findings per package")
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in options.paths] or [ROOT / name for name in CHECKED if (ROOT / name).exists()]
    rejected = list(findings(paths, load_rules()))
    if options.count:
        packages = Counter("/".join(Path(finding.path).parts[:2]) for finding in rejected)
        for package, count in packages.most_common():
            print(f"{count:6} {package}")
        print(f"{len(rejected):6} in all")
    else:
        for finding in rejected:
            print(finding)
    return 1 if rejected else 0


if __name__ == "__main__":
    sys.exit(main())
