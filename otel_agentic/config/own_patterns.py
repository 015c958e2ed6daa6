"""Whether a pattern of one's own can be used for redaction."""

from __future__ import annotations


def refusal_of(pattern: str) -> str | None:
    r"""Return why a pattern cannot be used: RE2 does not take it, or it matches the empty text; None for a good one.

    >>> refusal_of(r"\bK-[0-9]{6}\b"), refusal_of("a*")
    (None, 'it matches the empty text, and so everywhere')
    """
    import re2  # type: ignore[import-untyped] # noqa: PLC0415 — only who writes patterns needs it; it ships no types

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0]
        return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return "it matches the empty text, and so everywhere" if compiled.search("") else None
