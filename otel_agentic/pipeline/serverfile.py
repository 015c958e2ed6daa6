"""The small file beside a database that names the collector which holds it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveServer:
    """Where a live collector listens: `admin` and `http` are URLs, `grpc` is host:port, None where it does not."""

    pid: int
    admin: str
    http: str | None
    grpc: str | None
    started_at: str


def server_file(db: Path) -> Path:
    """Return the path of the file that names the live collector of a database."""
    return db.with_name(db.name + ".server.json")


def write_server_file(db: Path, server: LiveServer) -> None:
    """Say that a collector holds the database. Readers never see half a file."""
    target = server_file(db)
    draft = target.with_name(f"{target.name}.{server.pid}")
    draft.write_bytes(orjson.dumps(asdict(server), option=orjson.OPT_INDENT_2))
    draft.replace(target)


def remove_server_file(db: Path) -> None:
    """Say that no collector holds the database any more."""
    server_file(db).unlink(missing_ok=True)


def find_live_server(db: Path) -> LiveServer | None:
    """Return the collector that holds the database; None when there is none, or it died without saying so."""
    try:
        found = LiveServer(**orjson.loads(server_file(db).read_bytes()))
    except (OSError, orjson.JSONDecodeError, TypeError):
        return None
    return found if _is_running(found.pid) else None


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
