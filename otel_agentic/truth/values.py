"""Comparison of texts and JSON values: normalisation, equality by value, and JSON Schema by `jsonschema-rs`, with bounded checks.

Schemas and values are untrusted input: nothing is fetched, patterns run in linear time, and a check whose work could grow
beyond a limit is refused before it starts. Cases use draft 2020-12 as it is; schemas of tools are read in every draft from 3 to
2020-12, with OpenAPI's `nullable`.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import regex

from otel_agentic.config.patterns import own_pattern

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError


#: Punctuation that may end a sentence without changing its meaning; `%` and the like are significant. NFKC has already
#: converted full-width marks and the ellipsis into these. The code points are the full stops of Urdu, the languages of
#: India, Armenian, Burmese, Amharic and Khmer.
_FINAL_PUNCTUATION: Final = " .!?。؟،,;:" + "".join(map(chr, (0x06D4, 0x0964, 0x0965, 0x0589, 0x104B, 0x1362, 0x17D4)))

#: Scripts written without spaces: each character is a word.
UNSPACED: Final = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
#: `regex` instead of `re`, whose words end at combining marks: it would split Hindi words into letters.
_WORD: Final = regex.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
_UNSPACED_CHARACTER: Final = regex.compile(f"[{UNSPACED}]")
#: Replaces the ASCII characters that belong to no word; ten times as fast as the expression.
_BETWEEN_ASCII_WORDS: Final = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")}
#: These marks select how an emoji is drawn and do not belong to a word.
_VARIATION_SELECTORS: Final = frozenset("\ufe0e\ufe0f")


def normalise(text: str) -> str:
    """Return the text in NFKC, case folded, with single spaces and without final punctuation.

    >>> normalise("  Where is  my ORDER?! ")
    'where is my order'
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(_FINAL_PUNCTUATION)


def words(text: str) -> list[str]:
    """Return the words of a normalised text in order; in scripts without spaces each character is a word.

    >>> words(normalise("Don't panic: 東京"))
    ['don', 't', 'panic', '東', '京']
    """
    return text.translate(_BETWEEN_ASCII_WORDS).split() if text.isascii() else _WORD.findall(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bag:
    """A text prepared for comparison with many others: normalised, its words with their counts, and their number."""

    text: str
    counts: Mapping[str, int]
    size: int

    @classmethod
    def of(cls, text: str) -> Bag:
        """Return the bag of a raw text."""
        plain = normalise(text)
        tokens = words(plain)
        return cls(text=plain, counts=Counter(tokens), size=len(tokens))

    def similarity(self, other: Bag) -> float:
        """Return the Dice coefficient of the words of two texts as multisets, in [0, 1]; equal texts give 1."""
        if self.text == other.text:
            return 1.0
        total = self.size + other.size
        smaller, larger = sorted((self.counts, other.counts), key=len)
        # `Counter.__and__` creates a Counter, which takes twice as long.
        shared = sum([min(count, larger[word]) for word, count in smaller.items() if word in larger])
        return 2 * shared / total if total else 0.0


def similarity(first: str, second: str) -> float:
    """Return the similarity of two texts by their words, see `Bag.similarity`.

    >>> similarity("cancel my order", "please cancel my order")
    0.8571428571428571
    """
    return Bag.of(first).similarity(Bag.of(second))


def says_text(text: str, part: str) -> bool:
    """Return whether a normalised text contains another one as complete words.

    >>> says_text("you now know", "no"), says_text("no, you do not", "no")
    (False, True)
    """
    return next(places_of(text, part), None) is not None


def places_of(text: str, part: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges (start, end) in which a text contains another one as complete words.

    A match next to a letter or digit is part of a longer word, except in scripts without spaces.
    """
    start = text.find(part) if part else -1
    while start >= 0:
        end = start + len(part)
        if _separate_words(text[start - 1 : start], part[0]) and _separate_words(part[-1], text[end : end + 1]):
            yield start, end
        start = text.find(part, start + 1)


def _separate_words(left: str, right: str) -> bool:
    """Return whether two neighbouring characters belong to different words ("" is the edge of the text)."""
    if not (left and right and _in_word(left) and _in_word(right)):
        return True
    return bool(_UNSPACED_CHARACTER.match(left) or _UNSPACED_CHARACTER.match(right))


def _in_word(character: str) -> bool:
    """Return whether a character is a letter, a digit, or a combining mark."""
    if character.isalnum():
        return True
    return unicodedata.category(character) in {"Mn", "Mc"} and character not in _VARIATION_SELECTORS


#: A number in JSON notation: "05" is a text (a postcode), not the number 5. Numbers with more digits are texts too.
_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,300})(?:\.\d{1,300})?(?:[eE][+-]?\d{1,3})?")
_TEXT_CHARACTERS: Final = 60


def canonical(
    value: Any, *, unordered: bool = False, fold_case: bool = False, numbers_as_text: bool = False
) -> Hashable:
    """Return a hashable key that is equal for equal JSON values.

    Numbers are compared by value (5 equals 5.0), true differs from 1, a text differs from any number, and the order of
    keys in an object does not matter.

    Args:
        value: any JSON value.
        unordered: lists compare as multisets, at any depth.
        fold_case: texts compare normalised (`normalise`), at any depth.
        numbers_as_text: a text that is a JSON number compares as that number.

    Raises:
        RecursionError: the value is nested deeper than Python's stack.

    >>> canonical({"a": 5, "b": [1, 2]}) == canonical({"b": [1, 2.0], "a": 5.0})
    True
    >>> canonical([1, 2]) == canonical([2, 1]), canonical([1, 2], unordered=True) == canonical([2, 1], unordered=True)
    (False, True)
    >>> canonical(True) == canonical(1), canonical("5") == canonical(5)
    (False, False)
    """

    def key(element: Any) -> Hashable:
        if isinstance(element, str):
            if numbers_as_text and _JSON_NUMBER.fullmatch(element):
                return ("number", float(element))
            return ("text", normalise(element) if fold_case else element)
        if isinstance(element, (list, tuple)):
            keys = tuple(key(inner) for inner in element)
            return ("list", frozenset(Counter(keys).items()) if unordered else keys)
        if _is_object(element):
            return ("object", frozenset((str(name), key(inner)) for name, inner in element.items()))
        return _constant_key(element)

    return key(value)


def _is_object(value: Any) -> bool:
    # Built-in types first: a check against the abstract `Mapping` takes ten times as long.
    return type(value) is dict or (
        not (value is None or isinstance(value, (str, int, float))) and isinstance(value, Mapping)
    )


def _constant_key(value: Any) -> Hashable:
    if isinstance(value, bool) or value is None:
        return ("constant", value)
    if isinstance(value, (int, float)):
        # NaN differs from itself; two actual values that are both NaN count as equal here.
        return ("number", "nan" if math.isnan(value) else value)
    return ("other", repr(value))


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number; true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def leaves(value: Any, *, limit: int) -> Iterator[tuple[str, Any]]:
    """Yield at most `limit` texts, numbers and constants of a JSON value, each with its key.

    The key is that of the nearest enclosing object, or "".

    >>> list(leaves({"city": "Zürich", "days": [{"high": 12}]}, limit=10))
    [('city', 'Zürich'), ('high', 12)]
    """
    pending: list[tuple[str, Any]] = [("", value)]
    count = 0
    while pending and count < limit:
        name, element = pending.pop()
        if _is_object(element):
            pending.extend((str(key), inner) for key, inner in reversed(list(element.items())))
        elif isinstance(element, (list, tuple)):
            pending.extend((name, inner) for inner in reversed(element))
        else:
            count += 1
            yield name, element


def json_text(value: Any, characters: int = _TEXT_CHARACTERS) -> str:
    """Return a JSON value as text, truncated to a number of characters.

    >>> json_text({"b": 1, "a": "Zürich"}), json_text("x" * 10, characters=8)
    ('{"a": "Zürich", "b": 1}', '"xxxxxx…')
    """
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)
    except (RecursionError, TypeError, ValueError):
        text = "a value that cannot be shown"
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


#: Maximum characters of a schema and of arguments, as JSON, and maximum levels of nesting of either.
_SCHEMA_CHARACTERS: Final = 200_000
_ARGUMENT_CHARACTERS: Final = 1_000_000
_DEPTH: Final = 250
#: Maximum number of keywords that a schema applies, with references expanded; and of these times the characters of the
#: arguments.
_STEPS: Final = 100_000
_WORK: Final = 200_000_000
#: Maximum number of faults reported for one call, characters of a path, allowed values in a message, and cached
#: schemas.
_FAULTS: Final = 20
_PATH_CHARACTERS: Final = 200
_CHOICES: Final = 10
_COMPILED: Final = 512
#: Number of patterns that the engine may reject before the whole schema is refused.
_UNUSABLE_PATTERNS: Final = 100

_INVALID: Final = "the schema is not a valid JSON Schema"
_OUTSIDE: Final = "the schema refers to a definition that is not in it; nothing is fetched"
_TOO_DEEP: Final = "schema or arguments are nested too deeply"
_UNCHECKABLE: Final = "the schema cannot be applied to these arguments"

_METASCHEMA: Final = "https://json-schema.org/draft/2020-12/schema"
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
#: Keywords with subschemas for the value itself, and for values inside it; those whose operand maps names to subschemas.
_IN_PLACE: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
_INSIDE: Final = frozenset(
    {
        "properties", "patternProperties", "additionalProperties", "propertyNames", "unevaluatedProperties",
        "items", "prefixItems", "additionalItems", "contains", "unevaluatedItems",
    }
)  # fmt: skip
_MAPS: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
)
#: Keywords whose operands are values, not schemas.
_VALUES: Final = frozenset({"enum", "const", "default", "examples", "example"})
#: Markers that replace patterns that the engine rejects: `pattern`, and a key of `patternProperties`.
_BAD_PATTERN: Final = "x-unusable-pattern"
_BAD_KEYS: Final = "x-unusable-pattern-properties"


class SchemaUnusableError(ValueError):
    """A schema cannot be used to check a call; the message states the reason.

    `of_call` is True if the reason is in the call, so that other calls can still be checked.
    """

    def __init__(self, message: str, *, of_call: bool = False) -> None:
        super().__init__(message)
        self.of_call = of_call


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFault:
    """One violation: the path of the parameter (`legs[0].date`), the keyword, and the rest of a sentence about it."""

    path: str
    keyword: str
    message: str


def conforms(value: Any, schema: Any) -> bool:
    """Return whether a JSON value conforms to a schema of draft 2020-12 that passed `schema_problems`.

    >>> conforms(3, {"type": "integer", "minimum": 1}), conforms("3", {"type": "integer"})
    (True, False)
    """
    try:
        return _compiled(json.dumps(schema), as_written=True).accepts(value)
    except (SchemaUnusableError, TypeError, ValueError, RecursionError):
        return False


def schema_problems(schema: Any) -> Iterator[str]:
    """Yield the reasons why a schema of a case cannot be used, one sentence each."""
    from jsonschema_rs import Draft202012Validator  # noqa: PLC0415 — few cases use schemas

    if not isinstance(schema, (bool, dict)):
        yield f"a JSON Schema is an object, true or false, not {schema!r}"
        return
    valid = True
    for error in Draft202012Validator({"$ref": _METASCHEMA}, offline=True, validate_formats=False).iter_errors(schema):
        valid = False
        yield f"not a JSON Schema, at {'/'.join(map(str, error.instance_path)) or 'the top'}: {error.message}"
    for pattern in (node.get("pattern") for node in _nodes(schema)):
        try:
            if isinstance(pattern, str):
                own_pattern(pattern)
        except ValueError as error:
            valid = False
            yield f"pattern {error}"
    if valid:
        try:
            _compiled(json.dumps(schema), as_written=True)
        except SchemaUnusableError as error:
            yield f"{error}; write the definition in place" if f"{error}" == _OUTSIDE else f"{error}"


def schema_faults(arguments: Mapping[str, Any], schema: Any) -> tuple[SchemaFault, ...]:
    """Return the violations in the arguments of a call, by path; none if they are valid.

    The draft is that of `$schema`, otherwise 2020-12. A number is an integer by value (5.0 is one), true is not a
    number, `nullable` allows null, and `format` is not checked.

    Raises:
        SchemaUnusableError: the schema is invalid, refers outside itself or is too expensive to check; or the arguments are too
            large.

    >>> schema = {"properties": {"id": {"type": "string"}, "n": {"type": "integer"}}, "required": ["id"]}
    >>> [(fault.path, fault.message) for fault in schema_faults({"n": "many"}, schema)]
    [('id', 'is required but missing'), ('n', 'is "many", allowed: integer')]
    >>> schema_faults({"id": "x", "n": 5.0}, schema)
    ()
    """
    text = _json(schema)
    if text is None or len(text) > _SCHEMA_CHARACTERS:
        raise SchemaUnusableError(f"the schema is not JSON, or exceeds {_SCHEMA_CHARACTERS:,} characters")
    size = _json(dict(arguments))
    if size is None or len(size) > _ARGUMENT_CHARACTERS:
        message = f"the arguments are not JSON, or exceed {_ARGUMENT_CHARACTERS:,} characters"
        raise SchemaUnusableError(message, of_call=True)
    compiled = _compiled(text, as_written=False)
    return tuple(sorted(compiled.faults(dict(arguments)), key=lambda fault: (fault.path, fault.keyword, fault.message)))


@lru_cache(maxsize=_COMPILED)
def _compiled(text: str, *, as_written: bool) -> _Compiled:
    """Return a compiled schema; `as_written` reads it as draft 2020-12 without `nullable`."""
    schema = json.loads(text)
    if _depth_of(schema) > _DEPTH:
        raise SchemaUnusableError(_TOO_DEEP)
    try:
        return _Compiled(schema, 2020) if as_written else _Compiled(*_translated(schema))
    except RecursionError:
        raise SchemaUnusableError(_TOO_DEEP) from None


class _Compiled:
    """A schema with its validator and an upper bound of the work of a check."""

    def __init__(self, schema: Any, draft: int) -> None:
        self._schema = schema
        self._work: dict[tuple[int, int], int] = {}
        self._tried_bad_pattern = False
        if isinstance(schema, dict):
            self._check_references()  # before compiling, because the library expands references
        self._validator = self._compile(draft)

    def accepts(self, value: Any) -> bool:
        """Return whether a value is valid."""
        self._check_work(value)
        return bool(self._validator.is_valid(_without_surrogates(value)))

    def faults(self, value: Any) -> list[SchemaFault]:
        """Return the first violations in a value, without duplicates."""
        self._check_work(value)
        self._tried_bad_pattern = False
        faults: dict[SchemaFault, None] = {}
        for error, _ in zip(self._validator.iter_errors(_without_surrogates(value)), range(_FAULTS), strict=False):
            faults.update(dict.fromkeys(self._faults_of(error)))
        if self._tried_bad_pattern:
            raise SchemaUnusableError(_UNCHECKABLE)
        return list(faults)[:_FAULTS]

    def _compile(self, draft: int) -> Any:
        import jsonschema_rs  # noqa: PLC0415 — few stores have schemas

        classes = {
            7: jsonschema_rs.Draft7Validator,
            2019: jsonschema_rs.Draft201909Validator,
            2020: jsonschema_rs.Draft202012Validator,
        }
        owner = self

        class BadPattern:
            def __init__(self, parent: Any, operand: Any, path: Any) -> None:
                del parent, path
                self._kind = {_BAD_PATTERN: str, _BAD_KEYS: dict}[operand]

            def validate(self, instance: Any) -> None:
                if instance and isinstance(instance, self._kind):
                    owner._tried_bad_pattern = True

        for _ in range(_UNUSABLE_PATTERNS):
            try:
                return classes[draft](
                    self._schema,
                    offline=True,
                    validate_formats=False,
                    pattern_options=jsonschema_rs.RegexOptions(),
                    keywords={_BAD_PATTERN: BadPattern, _BAD_KEYS: BadPattern},
                )
            except jsonschema_rs.ValidationError as error:
                self._mark_bad_pattern(error)
            except Exception as error:  # noqa: BLE001 — an untrusted schema may raise anything; it cannot be used
                raise SchemaUnusableError(f"{_INVALID}: {type(error).__name__}") from None
        raise SchemaUnusableError(f"more than {_UNUSABLE_PATTERNS} patterns of the schema are unsupported")

    def _mark_bad_pattern(self, error: ValidationError) -> None:
        """Replace a pattern that the engine rejects by a marker, so that only values that reach it remain unchecked."""
        *parents, key = error.instance_path or [""]
        keyword = parents[-1] if parents else None
        if type(error.kind).__name__ == "Referencing" or "Resource" in error.message or "Pointer" in error.message:
            raise SchemaUnusableError(_OUTSIDE)
        if type(error.kind).__name__ != "Format" or (key != "pattern" and keyword != "patternProperties"):
            raise SchemaUnusableError(f"{_INVALID}, at {_path(error.instance_path) or 'the top'}")
        node = _value_at(self._schema, parents if key == "pattern" else parents[:-1])
        if key == "pattern":
            del node["pattern"]
            node[_BAD_PATTERN] = _BAD_PATTERN
        else:
            del node["patternProperties"][key]
            node[_BAD_KEYS] = _BAD_KEYS

    def _check_references(self) -> None:
        """Reject references that make the work of a check impossible to bound."""
        keys = set(_keys(self._schema))
        if not keys.intersection(_REFERENCES):
            return
        if keys.intersection({"unevaluatedProperties", "unevaluatedItems"}):
            raise SchemaUnusableError("the schema combines unevaluated fields with references, which has no bound")
        if any("$id" in _keys(value) for value in self._schema.values()):
            raise SchemaUnusableError("the schema combines embedded identifiers (`$id`) with references")
        if self._steps(self._schema, _depth_of(self._schema)) > _STEPS:
            raise SchemaUnusableError(f"checking takes more than {_STEPS:,} steps")

    def _check_work(self, value: Any) -> None:
        """Raise SchemaUnusableError if checking a value could take too much work."""
        depth = _depth_of(value)
        if depth > _DEPTH:
            raise SchemaUnusableError(_TOO_DEEP, of_call=True)
        text = _json(value)
        if text is None:
            raise SchemaUnusableError("the value is not JSON", of_call=True)
        try:
            work = self._steps(self._schema, depth) * len(text)
        except RecursionError:
            raise SchemaUnusableError(_TOO_DEEP) from None
        if work > _WORK:
            raise SchemaUnusableError(f"checking takes more than {_STEPS:,} steps")

    def _steps(self, node: Any, depth: int) -> int:
        """Return an upper bound of the keywords applied to a value of a depth and to one value on each level in it."""
        if not isinstance(node, dict):
            return 1
        key = (id(node), depth)
        cached = self._work.get(key)
        if cached == 0:  # a cycle of references that does not descend into the value
            raise SchemaUnusableError(_TOO_DEEP)
        if cached is not None:
            return cached
        self._work[key] = 0
        total = 1 + len(node)
        for keyword, operand in node.items():
            if keyword in _REFERENCES and isinstance(operand, str):
                total += self._steps(self._target(operand), depth)
            elif keyword in _IN_PLACE or (keyword in _INSIDE and depth):
                inner = depth - (keyword in _INSIDE)
                total += sum(self._steps(schema, inner) for schema in _subschemas(keyword, operand))
        self._work[key] = min(total, _WORK + 1)
        return self._work[key]

    def _target(self, reference: str) -> Any:
        fragment = reference.removeprefix(str(self._schema.get("$id", "")).rstrip("#"))
        if fragment in {"", "#"}:
            return self._schema
        if fragment.startswith("#/"):
            try:
                return _value_at(self._schema, _pointer(fragment))
            except (LookupError, TypeError, ValueError):
                raise SchemaUnusableError(_OUTSIDE) from None
        name = fragment.removeprefix("#")
        return next(
            (node for node in _nodes(self._schema) if name in (node.get("$anchor"), node.get("$dynamicAnchor"))), None
        )

    def _faults_of(self, error: ValidationError) -> Iterator[SchemaFault]:
        keyword = "false" if error.kind.name == "falseSchema" else error.kind.name
        path, value = list(error.instance_path), json_text(error.instance)
        operand: Any = None
        if keyword != "false":
            try:
                operand = _value_at(self._schema, error.schema_path)
            except (LookupError, TypeError, ValueError):
                operand = error.kind.value
        if keyword == "required":
            yield SchemaFault(path=_path([*path, error.kind.value]), keyword=keyword, message="is required but missing")
        elif keyword == "additionalProperties":
            for name in error.kind.value:
                yield SchemaFault(path=_path([*path, name]), keyword=keyword, message="is not a parameter of the tool")
        elif keyword in {"type", "enum", "const"}:
            choices = [operand] if keyword == "const" or not isinstance(operand, list) else operand
            yield SchemaFault(
                path=_path(path), keyword=keyword, message=f"is {value}, allowed: {_choices_text(choices, keyword)}"
            )
        elif keyword == "pattern":
            yield SchemaFault(
                path=_path(path),
                keyword=keyword,
                message=f"is {value}, which does not match the pattern {json_text(operand)}",
            )
        elif keyword == "false":
            yield SchemaFault(path=_path(path), keyword=keyword, message=f"is {value}, but no value is allowed there")
        else:
            yield SchemaFault(
                path=_path(path), keyword=keyword, message=f"is {value}, which breaks {keyword} {json_text(operand)}"
            )


def _translated(schema: Any) -> tuple[Any, int]:
    """Return a schema of any draft in a supported draft, and that draft.

    Drafts up to 7 become draft 7, and `nullable` becomes a condition.
    """
    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    if dialect is not None and not isinstance(dialect, str):
        raise SchemaUnusableError(f"{_INVALID}, at $schema")
    # Both http and https occur.
    name = (dialect or "").partition("://json-schema.org/")[2]
    draft = 7 if name.startswith("draft-0") else 2019 if name.startswith("draft/2019-09") else 2020
    old = name[: len("draft-0x")] in {"draft-03", "draft-04"}
    return _rewritten(schema, schema, old=old), draft


def _rewritten(node: Any, root: Any, *, old: bool, is_map: bool = False) -> Any:
    """Return a schema, or a map of schemas, with the keywords of draft 6 and later.

    `nullable` is applied, and `$schema` is removed.
    """
    if isinstance(node, list):
        return [_rewritten(inner, root, old=old) for inner in node]
    if not isinstance(node, dict):
        return node
    if is_map:
        return {key: _rewritten(inner, root, old=old) for key, inner in node.items()}
    schema = _without_old_keywords(node) if old else dict(node)
    if isinstance(schema.get("$schema"), str):
        del schema["$schema"]
    for key, operand in schema.items():
        if key in _REFERENCES and isinstance(operand, str) and operand.startswith("#/"):
            schema[key] = _rewritten_pointer(operand, root)
        elif key not in _VALUES:
            schema[key] = _rewritten(operand, root, old=old, is_map=key in _MAPS)
    # OpenAPI's and Gemini's way to allow null; JSON Schema has no such keyword.
    return {"if": {"type": "null"}, "else": schema} if node.get("nullable") is True else schema


def _rewritten_pointer(pointer: str, root: Any) -> str:
    """Return a JSON pointer adapted to the rewritten schema, in which nullable schemas are one level deeper."""
    node, parts, is_map = root, list[str](), False
    for part in pointer[2:].split("/"):
        if isinstance(node, dict) and node.get("nullable") is True and not is_map:
            parts.append("else")
        try:
            node = _value_at(node, _pointer(f"#/{part}"))
        except (LookupError, TypeError, ValueError):
            return pointer
        parts.append(part)
        is_map = not is_map and part in _MAPS
    return "#/" + "/".join(parts)


def _without_old_keywords(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of draft 3 or 4 with the keywords of draft 6.

    These are bounds, identifiers, `divisibleBy`, and `required` on properties.
    """
    if {"extends", "disallow"}.intersection(node):
        raise SchemaUnusableError("the schema uses keywords of draft 3 that are not supported: extends, disallow")
    schema = {{"divisibleBy": "multipleOf", "id": "$id"}.get(key, key): operand for key, operand in node.items()}
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and bound in schema:
            schema[exclusive] = schema.pop(bound)
    if schema.get("type") == "any":
        del schema["type"]
    if isinstance(schema.get("required"), bool):
        del schema["required"]
    properties = node.get("properties")
    if isinstance(properties, dict):
        names = [key for key, inner in properties.items() if isinstance(inner, dict) and inner.get("required") is True]
        if names:
            schema["required"] = [*schema.get("required", ()), *names]
    return schema


def _json(value: Any) -> str | None:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None


def _without_surrogates(value: Any) -> Any:
    """Return a value whose texts can be encoded in UTF-8: the library rejects lone surrogates."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return value


def _depth_of(value: Any) -> int:
    depth, level = 0, [value]
    while level and depth <= _DEPTH:
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
        ]
        depth += bool(level)
    return depth


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _nodes(child)


def _keys(value: Any) -> Iterator[str]:
    for node in _nodes(value):
        yield from node


def _subschemas(keyword: str, operand: Any) -> Iterator[Any]:
    if isinstance(operand, list):
        yield from operand
    elif isinstance(operand, dict) and keyword in _MAPS:
        yield from operand.values()
    else:
        yield operand


def _pointer(fragment: str) -> list[str]:
    return [unquote(part).replace("~1", "/").replace("~0", "~") for part in fragment[2:].split("/")]


def _value_at(value: Any, path: Sequence[str | int]) -> Any:
    for part in path:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def _choices_text(choices: Sequence[Any], keyword: str) -> str:
    """Return the allowed values as part of a sentence.

    >>> _choices_text(["string"], "type"), _choices_text(["a", 5], "enum")
    ('string', '"a" or 5')
    """
    names = [
        choice if keyword == "type" and isinstance(choice, str) else json_text(choice) for choice in choices[:_CHOICES]
    ]
    more = len(choices) - _CHOICES
    return " or ".join(names) + (f" or {more} more" if more > 0 else "")


def _path(parts: Sequence[str | int]) -> str:
    """Return a path in dotted notation.

    >>> _path(["legs", 0, "date"])
    'legs[0].date'
    """
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else f"{part}"
    return text if len(text) <= _PATH_CHARACTERS else f"{text[: _PATH_CHARACTERS - 1]}…"
