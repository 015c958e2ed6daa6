"""Files of an export on this side: written as they come from a store, read as they go into one."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.errors import BackendError, BadInputError, UsageError
from otel_agentic.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from otel_agentic.commands import Client

    Progress = Callable[[str, int, int | None], None]

#: Where a file of an export may lie, and nowhere else: what another side tells is no path to be trusted.
_FILE: Final = re.compile(r"(?P<table>[a-z_]{1,40})/(?:day=\d{4}-\d\d-\d\d/(?:hour-\d\d|day)|all)\.parquet")
_PIECE: Final = 4 * 1024 * 1024


def require_empty(folder: Path) -> None:
    """Refuse a folder that holds something: files of two exports would tell things twice.

    Raises:
        UsageError: it is not empty, or no folder.
    """
    try:
        if any(folder.iterdir()):
            raise UsageError(f"{folder}: not empty; give a folder that is empty, or not there yet")
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}; give a folder that can be written") from error


def receive(folder: Path, pieces: Iterable[Mapping[str, Any]], progress: Progress) -> dict[str, Any]:
    """Write the files whose pieces come, each whole or not at all; return rows by table, files and bytes.

    Raises:
        BackendError: a piece names a path that no export has.
        BadInputError: a file cannot be written.
    """
    from otel_agentic.store.export_files import move_durably, work_folder  # noqa: PLC0415 — only this command pays for it

    tables: dict[str, int] = {}
    files = size = 0
    try:
        with work_folder(folder) as made:
            draft = made / "draft.parquet"
            for piece in pieces:
                progress("exporting", piece["done"], piece["total"])
                if piece["file"] is None:
                    continue
                name = _FILE.fullmatch(piece["file"])
                if name is None:
                    raise BackendError(f"the collector names a file that no export has: {piece['file']!r}")
                data = b64decode(piece["data"])
                with draft.open("ab") as whole:
                    whole.write(data)
                size += len(data)
                if piece["last"]:
                    move_durably(draft, folder / piece["file"])
                    files += 1
                    tables[name["table"]] = tables.get(name["table"], 0) + piece["rows"]
    except OSError as error:
        raise BadInputError(
            f"{folder}: cannot be written: {error.strerror}; make room, or give another folder"
        ) from error
    return {"folder": str(folder), "files": files, "bytes": size, "tables": tables}


def receive_backup(target: Path, pieces: Iterable[Mapping[str, Any]], progress: Progress) -> dict[str, Any]:
    """Write a backup, and verify it before it takes its name; return its path, size, and rows by table.

    Raises:
        BackendError: what came is not what was sent.
        StoreError: what was written cannot be opened as a store.
        BadInputError: the file cannot be written.
    """
    from otel_agentic.store.backup import verify  # noqa: PLC0415 — only this command pays for it
    from otel_agentic.store.clone import replacing  # noqa: PLC0415 — same

    digest, sent = hashlib.sha256(), None
    try:
        with replacing(target) as file:
            for piece in pieces:
                progress("backing up", piece["done"], piece["total"])
                if "sha256" in piece:
                    sent = piece["sha256"]
                    continue
                data = b64decode(piece["data"])
                digest.update(data)
                file.write(data)
            if digest.hexdigest() != sent:
                raise BackendError(f"{target}: the backup did not come whole; nothing was written, try again")
            file.flush()
            found = verify(Path(file.name))
    except OSError as error:
        raise BadInputError(
            f"{target}: cannot be written: {error.strerror}; make room, or give another path"
        ) from error
    return {"file": str(target), "bytes": target.stat().st_size, "tables": found.rows, "sha256": sent}


def find_files(folder: Path) -> dict[str, list[Path]]:
    """Return the files of an export by table, in order.

    Raises:
        BadInputError: there is no such folder, or no file of an export in it.
    """
    if not folder.is_dir():
        raise BadInputError(f"{folder}: no such folder; give what `store export` or a collector wrote")
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*/**/*.parquet")):
        name = _FILE.fullmatch(path.relative_to(folder).as_posix())
        if name is not None and path.is_file():
            found.setdefault(name["table"], []).append(path)
    if not found:
        raise BadInputError(f"{folder}: no files of an export in it, such as spans/day=2026-03-01/hour-09.parquet")
    return found


def send(client: Client, files: Mapping[str, list[Path]], progress: Progress) -> dict[str, Any]:
    """Hand files to a store, table by table; return rows and new rows by table.

    Raises:
        BadInputError: a file is no Parquet file of its table, or holds a row that cannot be stored.
        OverloadedError: another import is under way.
    """
    from otel_agentic.store.importing import ORDER  # noqa: PLC0415 — same

    upload = client.call("store_import_begin")["upload"]
    total = sum(len(paths) for table, paths in files.items() if table in ORDER)
    tables: dict[str, dict[str, int]] = {}
    done = 0
    for table in ORDER:
        counts = {"rows": 0, "new": 0}
        for path in files.get(table, ()):
            told = _send_file(client, upload, table, path)
            counts = {name: counts[name] + told[name] for name in counts}
            done += 1
            progress("importing", done, total)
        if table in files:
            counts["new"] += client.call("store_import_table", upload=upload, table=table)["new"]
            tables[table] = counts
    rebuilt = client.call("store_import_end", upload=upload)["rebuilt_traces"]
    left_out = sorted(files.keys() - set(ORDER))
    return {"tables": tables, "files": total, "rebuilt_traces": rebuilt, "tables_left_out": left_out}


def _send_file(client: Client, upload: str, table: str, path: Path) -> dict[str, int]:
    size, read, told = path.stat().st_size, 0, {"rows": 0, "new": 0}
    try:
        with open_regular(path) as whole:
            while data := whole.read(_PIECE):
                read += len(data)
                told = client.call(
                    "store_import_piece", upload=upload, table=table, data=b64encode(data).decode(), last=read >= size
                )
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}; give a folder that can be read") from error
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error
    return told
