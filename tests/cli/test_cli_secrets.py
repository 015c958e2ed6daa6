"""Secrets are never shown: a collector and the commands are driven with known ones, and all of their output is searched."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.cli.running import COMMAND, Ran, environment, run, wait_until
from tests.cli.small import conversation, write_cases
from tests.judges.openai_server import OpenAIServer, ServerReply, error

#: One canary a secret. None is a word of any message, or part of another one.
SECRETS: Final = {
    "ingest token": "canary-ingest-8d1f20aa",
    "ingest token of a file": "canary-infile-5b77c1e0",
    "admin token": "canary-admin-c0ffee91",
    "query token": "canary-query-77aa0b3d",
    "header of the backend": "canary-header-1e9f4c2b",
    "key of the judge": "canary-modelkey-a9130fd7",
    "header to the judge": "canary-modelheader-90ab12ef",
    "key of the provider": "canary-envkey-3c55e8b2",
    "wrong token": "canary-wrong-60b7d7f1",
}
_CASE: Final = {"case_id": "where", "turns": [{"query": "Where is my order?", "answer": "It arrives on Tuesday."}]}
_COMMANDS: Final = (
    "conversations",
    "tools",
    "truth",
    "judge",
    "store",
    "alerts",
    "prompts",
    "config",
    "serve",
    "query",
)


def settings(folder: Path, base_url: str) -> dict[str, str]:
    """Return an environment in which every secret is set."""
    (folder / "tokens").write_text(f"{SECRETS['ingest token of a file']}\n")
    (folder / "tokens").chmod(0o600)
    options = {
        "base_url": base_url,
        "api_key": SECRETS["key of the judge"],
        "default_headers": {"x-own": SECRETS["header to the judge"]},
    }
    return {
        "OTEL_AGENTIC_RECEIVE__TOKEN": SECRETS["ingest token"],
        "OTEL_AGENTIC_RECEIVE__TOKEN_FILE": str(folder / "tokens"),
        "OTEL_AGENTIC_ADMIN__TOKEN": SECRETS["admin token"],
        "OTEL_AGENTIC_ADMIN__QUERY_TOKEN": SECRETS["query token"],
        "OTEL_AGENTIC_EMIT__HEADERS": json.dumps({"authorization": f"Bearer {SECRETS['header of the backend']}"}),
        "OTEL_AGENTIC_EMIT__ENDPOINT": "http://127.0.0.1:9",
        "OTEL_AGENTIC_EMIT__INTERVAL_S": "0.3",
        "OTEL_AGENTIC_SCORING__JUDGE": "langchain:openai:small",
        "OTEL_AGENTIC_JUDGE__MODEL_OPTIONS": json.dumps(options),
        "OTEL_AGENTIC_JUDGE__TRIES": "1",
        "OTEL_AGENTIC_LOG__LEVEL": "debug",
        "OTEL_AGENTIC_LOG__FORMAT": "json",
        "OTEL_AGENTIC_CONVERSATIONS__TURN_IDLE_S": "0.2",
        "OTEL_AGENTIC_CONVERSATIONS__IDLE_S": "0.4",
        "OPENAI_API_KEY": SECRETS["key of the provider"],
        "OPENAI_LOG": "debug",
    }


def echoing(request: dict[str, Any], _: int) -> ServerReply:
    """Answer as a provider that repeats its input."""
    del request
    return error(400, f"bad key {SECRETS['key of the judge']}, or header {SECRETS['header to the judge']}")


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {SECRETS[name]}"}


class Record:
    """Recorded texts by their source."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def keep(self, where: str, text: str | bytes) -> None:
        self.texts[f"{len(self.texts)} {where}"] = text if isinstance(text, str) else text.decode("latin-1")

    def hits(self) -> dict[str, list[str]]:
        """Return the secrets found, by where."""
        result = {
            where: [name for name, secret in SECRETS.items() if secret in text] for where, text in self.texts.items()
        }
        return {where: names for where, names in result.items() if names}


def over_http(recorded: Record, live: dict[str, Any]) -> None:
    """Ask every path with every token, and with none."""
    span = json.dumps(conversation("c1", case="where"))
    for who in (None, "wrong token", "ingest token", "ingest token of a file", "query token", "admin token"):
        headers = {"content-type": "application/json", **(bearer(who) if who else {})}
        for url in (f"{live['admin']}/healthz", f"{live['admin']}/readyz", f"{live['admin']}/metrics"):
            recorded.keep(f"GET {url} by {who}", _response_text(httpx.get(url, headers=headers)))
        for body in (span, "{", '{"resourceSpans": 3}'):
            answer = httpx.post(f"{live['http']}/v1/traces", headers=headers, content=body)
            recorded.keep(f"POST traces by {who}", _response_text(answer))
        for name, arguments in (
            ("live", {}),
            ("query", {"sql": "FROM spans"}),
            ("query", {"sql": "no"}),
            ("nobody", {}),
        ):
            answer = httpx.post(f"{live['admin']}/v1/commands/{name}", headers=headers, json=arguments, timeout=60)
            recorded.keep(f"command {name} by {who}", _response_text(answer))


def _response_text(answer: httpx.Response) -> str:
    return f"{answer.status_code} {dict(answer.headers)} {answer.text}"


def run_with(env: Mapping[str, str], *arguments: str) -> Ran:
    """Run a command in this process with an environment of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        return run(*arguments)


def over_commands(recorded: Record, folder: Path, env: dict[str, str]) -> None:
    """Run commands as people do, right ones and wrong ones."""
    bad = folder / "bad.toml"
    bad.write_text(
        f'[receive]\ntoken = ["{SECRETS["ingest token"]}"]\n[judge]\nmax_cost_usd = 1.0\n'
        f'[judge.model_options]\napi_key = "{SECRETS["key of the judge"]}"\n'
    )
    worse = folder / "worse.toml"
    worse.write_text(f'[judge]\nmax_cost_usd = 1.0\nmodel_options = {{api_key = "{SECRETS["key of the judge"]}"}}\n')
    password = {**env, "OTEL_AGENTIC_EMIT__ENDPOINT": f"http://me:{SECRETS['header of the backend']}@127.0.0.1:9"}
    no_json = {**env, "OTEL_AGENTIC_EMIT__HEADERS": SECRETS["header of the backend"]}
    db = str(folder / "live.duckdb")
    for own, *arguments in (
        (env, "config", "show"),
        (env, "config", "show", "--format", "json"),
        (env, "plugins"),
        (env, "doctor"),
        (env, "doctor", "--live", "--db", db),
        (env, "judge", "cache", "--db", db),
        (env, "--debug", "evaluate", "--db", db),
        (env, "--debug", "query", "SELECT nothing", "--db", db),
        ({**env, "OTEL_AGENTIC_ADMIN__TOKEN": SECRETS["wrong token"]}, "--debug", "query", "FROM spans", "--db", db),
        (env, "--debug", "config", "show", "--config", str(bad)),
        (env, "--debug", "config", "show", "--config", str(worse)),
        (password, "--debug", "config", "show"),
        (no_json, "--debug", "config", "show"),
        (
            {**env, "OTEL_AGENTIC_SCORING__JUDGE": "langchain:nobody:m"},
            "--debug",
            "evaluate",
            "--db",
            str(folder / "o"),
        ),
        (env, "--help"),
    ):
        ran = run_with(own, *arguments)
        recorded.keep(" ".join(arguments), ran.out + ran.err)


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Return all output of a collector and the commands."""
    folder, recorded = tmp_path_factory.mktemp("secrets"), Record()
    cases = write_cases(folder / "cases.jsonl", [_CASE])
    with OpenAIServer(echoing) as provider:
        env = settings(folder, provider.base_url)
        free = [part for way in ("--grpc", "--http", "--admin") for part in (way, "127.0.0.1:0")]
        process = subprocess.Popen(
            [*COMMAND, "serve", "--db", str(folder / "live.duckdb"), "--cases", str(cases), *free],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(env),
            text=True,
        )
        with process:
            try:
                server_file = folder / "live.duckdb.server.json"
                wait_until(lambda: server_file.exists() or process.poll() is not None)
                assert process.poll() is None, process.communicate()
                recorded.keep("server file", server_file.read_bytes())
                live = json.loads(server_file.read_bytes())
                over_http(recorded, live)
                wait_until(lambda: bool(provider.requests))
                over_commands(recorded, folder, env)
            finally:
                process.terminate()
            out, err = process.communicate(timeout=30)
        recorded.keep("standard output of serve", out)
        recorded.keep("log of serve", err)
        for path in folder.rglob("live.duckdb*"):
            if path.is_file():
                recorded.keep(f"file {path.name}", path.read_bytes())
    return recorded


def test_no_secret_is_in_any_output_log_answer_metric_or_file(driven: Record) -> None:
    assert {} == driven.hits()


def test_the_search_was_given_what_it_should_have_found(driven: Record) -> None:
    document = "\n".join(driven.texts.values())
    for item in ("Unauthorized", "agentic_", "judge_error", "Traceback", "telemetry backend", "**********", "***"):
        assert item in document, item


def test_a_planted_secret_would_be_found(driven: Record) -> None:
    planted = Record()
    planted.texts = driven.texts | {name: f"Bearer {secret} in a log" for name, secret in SECRETS.items()}
    assert {name: [name] for name in SECRETS} == planted.hits()


@pytest.mark.parametrize("command", _COMMANDS)
def test_help_shows_no_value_of_a_setting(command: str) -> None:
    env = {"OTEL_AGENTIC_ADMIN__TOKEN": SECRETS["admin token"], "OTEL_AGENTIC_RECEIVE__TOKEN": SECRETS["ingest token"]}
    ran = run_with(env, command, "--help")
    assert "canary" not in ran.out + ran.err
