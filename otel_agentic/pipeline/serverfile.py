"""The small file beside a database that names the collector which holds it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import orjson

if TYPE_CHECKING:
    from pathlib import Path

_SUFFIX: Final = ".server.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveServer:
    """Where a live collector listens: `admin` and `http` are URLs, `grpc` is host:port, None where it does not.

    `process` tells its process from a later one that was given the same id; empty where the system does not say.
    """

    pid: int
    admin: str
    http: str | None
    grpc: str | None
    started_at: str
    process: str = ""


def server_file(db: Path) -> Path:
    """Return the path of the file that names the live collector of a database, whatever link leads to that."""
    found = db.resolve()
    return found.with_name(found.name + _SUFFIX)


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
        names_one = found.pid > 0  # of 0 and below the system would answer for whole groups; of text, this raises
    except (OSError, orjson.JSONDecodeError, TypeError):
        return None
    return found if names_one and _is_running(found) else None


def held_in(folder: Path) -> list[Path]:
    """Return the databases in a folder that running collectors hold."""
    named = (file.with_name(file.name.removesuffix(_SUFFIX)) for file in sorted(folder.glob(f"*{_SUFFIX}")))
    return [db for db in named if find_live_server(db) is not None]


def process_mark(pid: int) -> str:
    """Return what tells a process from a later one of the same id: boot and start time; empty where that is not told."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 — a path of the system's, not of files
            # The second field is the command's name in parentheses and may hold anything; the 20th after it is the start.
            started = file.read().rpartition(b")")[2].split()[19].decode()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123 — same
            return f"{file.read().strip()}-{started}"
    except (OSError, IndexError):
        return ""


def _is_running(server: LiveServer) -> bool:
    try:
        os.kill(server.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's, but there
    return not server.process or process_mark(server.pid) in {server.process, ""}
