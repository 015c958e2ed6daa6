"""The file next to a database that names the collector using it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson

_SUFFIX: Final = ".server.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveServer:
    """The addresses of a live collector: `admin` and `http` are URLs, `grpc` is host:port; None if not listening.

    `process` distinguishes the process from a later one with the same id; empty if the system does not provide it.
    """

    pid: int
    admin: str
    http: str | None
    grpc: str | None
    started_at: str
    process: str = ""


def server_file(db: Path) -> Path:
    """Return the path of the file that names the live collector of a database; links are resolved."""
    path = db.resolve()
    return path.with_name(path.name + _SUFFIX)


def write_server_file(db: Path, server: LiveServer) -> None:
    """Record that a collector uses the database. The file is replaced atomically."""
    target = server_file(db)
    draft = target.with_name(f"{target.name}.{server.pid}")
    draft.write_bytes(orjson.dumps(asdict(server), option=orjson.OPT_INDENT_2))
    draft.replace(target)


def remove_server_file(db: Path) -> None:
    """Record that no collector uses the database any more."""
    server_file(db).unlink(missing_ok=True)


def find_live_server(db: Path) -> LiveServer | None:
    """Return the collector that uses the database; None without one, or if it died without removing the file."""
    try:
        server = LiveServer(**orjson.loads(server_file(db).read_bytes()))
        is_valid = server.pid > 0  # 0 and negative numbers address process groups; text raises
    except (OSError, orjson.JSONDecodeError, TypeError):
        return None
    return server if is_valid and _is_running(server) else None


def held_in(folder: Path) -> list[Path]:
    """Return the databases in a folder that running collectors use."""
    databases = (file.with_name(file.name.removesuffix(_SUFFIX)) for file in sorted(folder.glob(f"*{_SUFFIX}")))
    return [db for db in databases if find_live_server(db) is not None]


def process_mark(pid: int) -> str:
    """Return boot id and start time of a process, which differ from those of any later process with the same id.

    Empty if unknown.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 — a system path
            # The second field is the command's name in parentheses and may hold anything; the 20th after it is the start.
            start_ticks = file.read().rpartition(b")")[2].split()[19].decode()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123 — same
            return f"{file.read().strip()}-{start_ticks}"
    except (OSError, IndexError):
        return ""


def _is_running(server: LiveServer) -> bool:
    try:
        os.kill(server.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it exists and belongs to another user
    return not server.process or process_mark(server.pid) in {server.process, ""}
