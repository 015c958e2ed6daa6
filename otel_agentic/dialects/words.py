"""Names by their words, so that `toolCall.id`, `acme:tool_call_id` and `tool-call-id` are one."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

#: A word of a name: `spanKind` is two, and so is `LLMCall`.
_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
#: Nobody names an attribute or a kind at greater length.
MAX_NAME: Final = 200


@lru_cache(maxsize=8192)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case; of a very long one none.

    >>> words_of("genkit:metadata:sessionId"), words_of("TOOL_CALL")
    (('genkit', 'metadata', 'session', 'id'), ('tool', 'call'))
    """
    return tuple(word.lower() for word in _WORD.findall(name)) if len(name) <= MAX_NAME else ()
