"""Settings for display: with their secrets masked."""

from __future__ import annotations

import re
from typing import Any, Final

#: The replacement of a secret.
MASK: Final = "**********"
#: Names of options, of a model or a client, that contain secrets.
_SECRET: Final = re.compile(r"key|token|secret|passw|credential|header|auth|cookie|sign", re.IGNORECASE)
#: Exceptions: `max_tokens` is a number.
_NONE: Final = re.compile(r"max_|_tokens$|n_tokens|token_limit|key_?words", re.IGNORECASE)
#: A user and a password in a URL.
_USER: Final = re.compile(r"(?<=://)[^/?#\s]*@")


def masked(value: Any, name: str = "") -> Any:
    """Return a value with secrets, recognised by name, and users and passwords in URLs masked.

    >>> masked({"api_key": "sk-1", "max_tokens": 9, "base_url": "http://me:pw@host/v1"})
    {'api_key': '**********', 'max_tokens': 9, 'base_url': 'http://***@host/v1'}
    """
    if _SECRET.search(name) and not _NONE.search(name) and value not in (None, ""):
        return MASK
    if isinstance(value, dict):
        return {key: masked(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item, name) for item in value]
    return without_user(value) if isinstance(value, str) else value


def without_user(text: str) -> str:
    """Return a text with users and passwords in its URLs masked.

    >>> without_user("http://me:pw@host:4318 does not answer")
    'http://***@host:4318 does not answer'
    """
    return _USER.sub("***@", text)


def has_user(url: str) -> bool:
    """Return whether a URL contains a user or a password."""
    return _USER.search(url) is not None
