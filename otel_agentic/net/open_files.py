"""How many connections the operating system lets this process have."""

from __future__ import annotations

import logging

_log = logging.getLogger(__name__)


def raise_file_limit(wanted: int) -> None:
    """Ask for as many open files as `wanted`, connections among them; warn where fewer are allowed.

    Many systems allow 1,024 at first, and as many more as a process asks for.
    """
    try:
        import resource  # noqa: PLC0415 — Windows has none, and no such limit
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):
        allowed = soft
    if allowed < wanted:
        _log.warning(
            "this process may open %d files, and receive.max_connections on both ports may need %d: raise the limit "
            "(ulimit -n, LimitNOFILE=), or lower the setting",
            allowed,
            wanted,
        )
