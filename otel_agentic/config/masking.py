"""Settings as people may see them: without the secrets in them."""

from __future__ import annotations

import re
from typing import Any, Final

#: What a secret that is not told is shown as.
MASK: Final = "**********"
#: Names of options, of a model or a client, that hold secrets.
_SECRET: Final = re.compile(r"key|token|secret|passw|credential|header|auth|cookie|sign", re.IGNORECASE)
#: Such names that hold none: `max_tokens` is a number.
_NONE: Final = re.compile(r"max_|_tokens$|n_tokens|token_limit|key_?words", re.IGNORECASE)
#: A user and a password in a URL.
_USER: Final = re.compile(r"(?<=://)[^/?#\s]*@")


def masked(value: Any, name: str = "") -> Any:
    """Return a value with what its names say is secret masked, and users and passwords in URLs.

    >>> masked({"api_key": "sk-1", "max_tokens": 9, "base_url": "http://me:pw@host/v1"})
    {'api_key': '**********', 'max_tokens': 9, 'base_url': 'http://***@host/v1'}
    """
    if _SECRET.search(name) and not _NONE.search(name) and value not in (None, ""):
        return MASK
    if isinstance(value, dict):
        return {key: masked(each, str(key)) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [masked(each, name) for each in value]
    return without_user(value) if isinstance(value, str) else value


def without_user(text: str) -> str:
    """Return a text with users and passwords in its URLs masked.

    >>> without_user("http://me:pw@host:4318 does not answer")
    'http://***@host:4318 does not answer'
    """
    return _USER.sub("***@", text)


def has_user(url: str) -> bool:
    """Return whether a URL holds a user or a password."""
    return _USER.search(url) is not None
