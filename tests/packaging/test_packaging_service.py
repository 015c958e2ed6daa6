"""The systemd unit: valid for systemd, and its command serves with its environment, as another user where that is possible."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.cli.running import wait_until

UNIT = Path("deploy/otel-agentic.service")
INSTALLED = "/opt/otel-agentic/bin/otel-agentic"
CASES = "/etc/otel-agentic/cases"
PROGRAM = Path(sys.executable).with_name("otel-agentic")
OTHER_USER = 65534
SPAN = {
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "spanId": "b7ad6b7169203331",
    "name": "invoke_agent",
    "startTimeUnixNano": "1",
    "endTimeUnixNano": "2",
}
REQUEST = {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}

pytestmark = pytest.mark.slow


def service() -> list[tuple[str, str]]:
    """Return the options of the service in the order of the unit."""
    options: list[tuple[str, str]] = []
    for line in UNIT.read_text().partition("[Service]")[2].partition("[Install]")[0].splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            options.append((name, value))
    return options


def posted(url: str, token: str | None) -> int:
    """Post a span and return the status."""
    headers = {"content-type": "application/json", **({} if token is None else {"authorization": f"Bearer {token}"})}
    request = urllib.request.Request(f"{url}/v1/traces", json.dumps(REQUEST).encode(), headers)  # noqa: S310 — http
    try:
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310 — http
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(INSTALLED, str(PROGRAM)))

    ran = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")


def another_user_can_run() -> bool:
    """Return whether this user may start the program as another one, who has access to its interpreter."""
    folders = [
        folder for path in (PROGRAM, PROGRAM.resolve(), Path(sys.executable).resolve()) for folder in path.parents
    ]
    return os.geteuid() == 0 and all(folder.stat().st_mode & 0o1 for folder in folders)


def test_the_command_of_the_service_writes_to_its_state_folder_only(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    state, credentials, cases = (tmp_path / name for name in ("state", "credentials", "cases"))
    for folder in (state, credentials, cases):
        folder.mkdir(mode=0o755)
    if another_user_can_run():
        os.chown(state, OTHER_USER, OTHER_USER)
    for name in ("ingest-token", "admin-token"):
        (credentials / name).write_text(f"{name} {'x' * 40}".replace(" ", "-"))
    options = service()
    environment = {"STATE_DIRECTORY": str(state), "PATH": "/usr/bin:/bin"}
    for name, value in options:
        if name == "Environment":
            key, _, text = shlex.split(value)[0].partition("=")
            environment[key] = text.replace("%d", str(credentials)).replace(CASES, str(cases))
    # As an administrator sets them in /etc/otel-agentic/environment: the ports of this machine may be in use.
    environment |= {"OTEL_AGENTIC_RECEIVE__GRPC": "127.0.0.1:0", "OTEL_AGENTIC_RECEIVE__HTTP": "127.0.0.1:0"}
    environment |= {"OTEL_AGENTIC_ADMIN__ADDRESS": "127.0.0.1:0"}
    command = dict(options)["ExecStart"].replace(INSTALLED, str(PROGRAM)).replace("${STATE_DIRECTORY}", str(state))
    log = tmp_path / "log"

    as_user = {"user": OTHER_USER, "group": OTHER_USER, "extra_groups": []} if another_user_can_run() else {}
    umask = int(dict(options)["UMask"], 8)
    with (
        log.open("wb") as errors,
        subprocess.Popen(command.split(), env=environment, cwd="/", stderr=errors, umask=umask, **as_user) as process,  # type: ignore[call-overload] # of the user
    ):
        try:
            server_file = state / "agents.duckdb.server.json"
            wait_until(lambda: server_file.exists() or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            server = json.loads(server_file.read_text())
            refused = posted(server["http"], None)
            stored = posted(server["http"], (credentials / "ingest-token").read_text())
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    assert (refused, stored, process.returncode) == (401, 200, 0)
    assert list(cases.iterdir()) == []
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in state.iterdir()} == {"agents.duckdb": "0o600"}
