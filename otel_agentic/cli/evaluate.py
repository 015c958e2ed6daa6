"""`otel-agentic evaluate`: match and score conversations, or compute metrics for the rows of a dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from otel_agentic.cli.confirm import confirm_cost, yes_option
from otel_agentic.cli.errors import INTERRUPTED
from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.open_conversations import open_conversations_of, say_empty
from otel_agentic.cli.options import (
    FILE,
    Section,
    Selection,
    Target,
    cases_option,
    conversation_options,
    judge_option,
    labels_option,
    output_option,
    present,
    quiet_option,
    require_own_file,
    settings_of,
    target_options,
    truth_of,
)
from otel_agentic.cli.progress import progress_bar, reporting_waits
from otel_agentic.errors import StoreBusyError, UsageError
from otel_agentic.render.notes import advice, judge_notes, metric_advice, score_warnings
from otel_agentic.render.terminal import Column, console, numbers, print_json, print_result, print_table, say, text
from otel_agentic.render.text import NOTHING, WITHOUT_CASE, percent, plural, short
from otel_agentic.results import from_json
from otel_agentic.results.evaluation import (
    EvaluatedRow,
    EvaluationRun,
    EvaluatorCounts,
    JudgeQuestions,
    MetricCounts,
    RowsEvaluation,
)

if TYPE_CHECKING:
    from rich.console import Console

    from otel_agentic.commands import Client
    from otel_agentic.config import Settings

#: The number of labels, or reasons, printed for a metric.
_MAX_COUNTS: Final = 3
_OURS: Final = "agentic."
_COLUMNS: Final = (
    Column(name="metric", unfolded=True),
    *numbers("n", "mean"),
    *text("labels", "not evaluated"),
)


def metrics_of(metrics: str | None, evaluators: Sequence[str]) -> list[str] | None:
    """Return the names given by `--metrics` and `--evaluator`, None if the settings decide.

    >>> metrics_of("helpfulness, layers", ["checks.py:polite"]), metrics_of(None, ["checks.py:polite"])
    (['helpfulness', 'layers', 'checks.py:polite'], None)
    """
    if metrics is None:
        return None
    return [*filter(None, (name.strip() for name in metrics.split(","))), *evaluators]


def own_files(config_file: Path | None, evaluators: Sequence[str]) -> dict[str, Section]:
    """Return settings that add the given evaluator files to the configured ones."""
    if not evaluators:
        return {}
    configured_files = settings_of(config_file).evaluators.files
    return {"evaluators": {"files": tuple(dict.fromkeys((*configured_files, *evaluators)))}}


def require_no_files(client: Client, evaluators: Sequence[str]) -> None:
    """Reject evaluator files if the command runs in a collector.

    Raises:
        UsageError: evaluator files are given, and the command runs in a collector.
    """
    if evaluators and client.is_remote:
        files = ", ".join(f'"{name}"' for name in evaluators)
        raise UsageError(
            f"evaluate --evaluator {evaluators[0]}: a running collector holds the store and uses the evaluators of its "
            f"own settings; set evaluators.files = [{files}] there and restart it"
        )


def print_skipped(out: Console, names: Sequence[str]) -> None:
    """Print the metrics of a family that were skipped because the judge calls no model, if any."""
    from otel_agentic.evaluators.registry import unasked_note  # noqa: PLC0415 — not needed for --help

    if names:
        say(out, unasked_note(names))


def print_metric_notes(out: Console, done: EvaluatorCounts, *, details: bool) -> None:
    """Print the results of the evaluators in this run, one line per metric or only their number, and the errors of evaluators."""
    if not done.conversations:
        return
    earlier_note = f", {done.caught_up:,} of them scored earlier" if done.caught_up else ""
    conversations = f"{plural(done.conversations, 'conversation')}{earlier_note}"
    if done.metrics and details:
        click.echo()
        print_metrics(out, done.metrics, f"Metrics: {conversations}")
    elif done.metrics:
        with_score = sum(metric.n > 0 for metric in done.metrics)
        say(out, f"{plural(with_score, 'metric')} computed for {conversations}; --details prints them")
    for fault, count in done.faults.items():
        say(out, f"warning: {fault} ({plural(count, 'conversation')}); it counts as not evaluated", style="yellow")


def print_metrics(out: Console, metrics: Sequence[MetricCounts], title: str) -> None:
    """Print one line per metric: its number of scores, their mean or labels, and the reasons for missing scores."""
    rows = [_metric_row(metric) for metric in metrics if metric.n]
    if rows:
        print_table(out, _COLUMNS, rows, title)
    else:
        say(out, title, style="bold")
    without = [f"{', '.join(names)} ({reasons})" for reasons, names in _without_score(metrics).items()]
    if without:
        say(out, f"no score: {'; '.join(without)}")


def _without_score(metrics: Sequence[MetricCounts]) -> dict[str, list[str]]:
    """Return the metrics without any score, grouped by their reasons."""
    names: dict[str, list[str]] = {}
    for metric in metrics:
        if not metric.n:
            names.setdefault(_counts(metric.not_evaluated), []).append(metric.name.removeprefix(_OURS))
    return names


def _metric_row(metric: MetricCounts) -> list[str]:
    mean = NOTHING if metric.mean is None else f"{metric.mean:,.3g}"
    return [
        metric.name.removeprefix(_OURS),
        f"{metric.n:,}",
        mean,
        _counts(metric.labels),
        _counts(metric.not_evaluated),
    ]


def _counts(counts: Mapping[str, int]) -> str:
    """Return the most frequent counts with their names.

    >>> _counts({"pass": 12, "fail": 3}), _counts({})
    ('12 pass, 3 fail', '')
    """
    parts = [f"{count:,} {name}" for name, count in counts.items()]
    more = f", {len(parts) - _MAX_COUNTS} more" if len(parts) > _MAX_COUNTS else ""
    return ", ".join(parts[:_MAX_COUNTS]) + more


#: The number of printed explanations of missing scores, and characters of each.
_REASONS: Final = 6
_CHARACTERS: Final = 160
#: Options of `evaluate` that need a store.
_OF_STORES: Final = (
    "server",
    "cases",
    "labels",
    "compat",
    "match_text",
    "fuzzy",
    "since",
    "until",
    "agent",
    "suite",
    "force",
)


def evaluate_row_files(context: click.Context) -> int:
    """Evaluate rows with the options of `evaluate`, print the results, and return the exit code.

    Raises:
        UsageError: an option needs a store.
        CaseError: rows cannot be read; lists the problems of all files.
    """
    from otel_agentic.api.nemo import is_nemo_config, nemo_json  # noqa: PLC0415 — not needed for --help
    from otel_agentic.api.rows import evaluate_rows, rows_json  # noqa: PLC0415 — same

    params = context.params
    unsupported_options = [
        f"--{name.replace('_', '-')}"
        for name in _OF_STORES
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if unsupported_options:
        raise UsageError(
            f"--rows with {', '.join(unsupported_options)}: rows contain their own references, and all rows are evaluated; omit "
            f"{unsupported_options[0]}, or keep the rows in a store with --db FILE"
        )
    if params["config_file"] is not None and is_nemo_config(params["config_file"]):
        return _evaluate_nemo_tasks(params)
    own = own_files(params["config_file"], params["evaluators"])
    settings = settings_of(params["config_file"], None, scoring=present(judge=params["judge"]), **own)
    names = metrics_of(params["metrics"], params["evaluators"])
    with progress_bar(quiet=params["quiet"]) as bar:
        rows_evaluated = evaluate_rows(
            params["rows"], settings, names, progress=lambda done, total: bar("rows", done, total)
        )
    payload = rows_json(rows_evaluated)
    if params["output"] != "table":
        print_json(payload if params["output"] == "json" else nemo_json([("", "", rows_evaluated)]))
    elif not params["quiet"]:
        _print_rows(from_json(RowsEvaluation, payload))
    return 0


def _evaluate_nemo_tasks(params: Mapping[str, Any]) -> int:
    """Evaluate rows with the tasks of a configuration of NeMo Evaluator; see `evaluate_row_files`."""
    from otel_agentic.api.nemo import evaluate_tasks, nemo_json, read_nemo_config  # noqa: PLC0415 — few users have one
    from otel_agentic.api.rows import rows_json  # noqa: PLC0415 — same

    path = params["config_file"]
    if params["metrics"] is not None or params["evaluators"]:
        option = "--evaluator" if params["evaluators"] else "--metrics"
        raise UsageError(f"{option} with --config {path}: the tasks of a NeMo Evaluator configuration name the metrics")
    config = read_nemo_config(path, params["judge"])
    with progress_bar(quiet=params["quiet"]) as bar:
        results = evaluate_tasks(config, params["rows"], progress=lambda done, total: bar("rows", done, total))
    if params["output"] == "nemo":
        print_json(nemo_json([(task.name, task.metric_name, results[task.name]) for task in config.tasks]))
    elif params["output"] == "json":
        print_json({"tasks": {name: rows_json(result) for name, result in results.items()}})
    elif not params["quiet"]:
        for task in config.tasks:
            say(console(), f"{task.name} ({task.metric_name}), judge {task.settings.scoring.judge}", style="bold")
            _print_rows(from_json(RowsEvaluation, rows_json(results[task.name])))
        for name in config.unused:
            say(console(), f"{path}: {name} is not used")
    return 0


def keep_rows(settings: Settings, files: Sequence[Path], *, quiet: bool) -> None:
    """Store rows as conversations in the configured store, with their cases.

    Raises:
        StoreBusyError: a running collector holds the file.
        CaseError: rows cannot be read; lists the problems of all files.
        StoreError: the file cannot be used.
    """
    from otel_agentic.api.rows import read_rows_files, store_rows  # noqa: PLC0415 — not needed for --help
    from otel_agentic.engine.engine import Engine  # noqa: PLC0415 — same
    from otel_agentic.net.server_file import find_live_server  # noqa: PLC0415 — same

    live = find_live_server(settings.store.db)
    if live is not None:
        raise StoreBusyError(
            f"{settings.store.db} is held by the collector with process id {live.pid}, which accepts only spans; keep the "
            "rows in another file"
        )

    rows = read_rows_files(files)
    with Engine(settings, create=True) as engine:
        stored_rows = store_rows(engine, rows)
    if not quiet:
        skipped_note = (
            f"; {plural(stored_rows.without_agent, 'row')} without agent data skipped"
            if stored_rows.without_agent
            else ""
        )
        say(
            console(),
            f"{plural(stored_rows.stored, 'row')} stored as conversations, {stored_rows.new:,} of them new or changed{skipped_note}",
        )


def _print_rows(evaluation: RowsEvaluation) -> None:
    out = console()
    files = Counter(row.file for row in evaluation.rows)
    file_names = (
        ", ".join(f"{name} ({count:,})" for name, count in files.items()) if len(files) > 1 else next(iter(files))
    )
    print_metrics(out, evaluation.metrics, f"{plural(len(evaluation.rows), 'row')} of {file_names}")
    for line in (*_reasons(evaluation.rows), *metric_advice(evaluation.metrics)):
        say(out, line)
    _print_notes(out, evaluation)


def _reasons(rows: Sequence[EvaluatedRow]) -> Iterator[str]:
    """Yield the reasons for missing scores, each with the first row that it applies to."""
    examples: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for score in row.scores:
            if score.reason is not None:
                location = f"{row.file}:{row.line}"
                example = examples.setdefault((score.name, score.reason), [location, score.explanation])
                del example[2:]
    by_text: dict[tuple[str, str, str], list[str]] = {}
    for (name, reason), (location, explanation) in examples.items():
        by_text.setdefault((reason, location, explanation), []).append(name)
    for number, ((reason, location, explanation), names) in enumerate(by_text.items()):
        if number == _REASONS:
            yield f"… and {len(by_text) - _REASONS} more; --format json lists all"
            return
        yield f"{reason} ({', '.join(_brief(name) for name in names)}), as in {location}: {short(explanation, _CHARACTERS)}"


def _brief(name: str) -> str:
    return name.removeprefix("agentic.")


def _print_notes(out: Console, evaluation: RowsEvaluation) -> None:
    for fault, count in evaluation.faults.items():
        say(out, f"warning: {fault} ({plural(count, 'row')})", style="yellow")
    for name, count in evaluation.left_out.items():
        say(out, f"{name} in {plural(count, 'row')} is not used by any of these metrics")
    print_skipped(out, evaluation.metrics_left_out)
    for line in judge_notes(evaluation.judge):
        say(out, line)


#: The largest number of warnings that are printed.
_WARNINGS: Final = 10
#: The possible causes of a run without progress, with a judge that calls a model and without one.
_WAITING_FOR_JUDGE: Final = (
    "conversations are being scored; judge {judge} may be slow or not responding (a call times out after "
    "judge.timeout_s, a verdict fails after judge.tries calls, a run waits judge.outage_wait_s in total for the judge)"
)
_WAITING: Final = "conversations are being scored; `otel-agentic doctor --live` shows the state of a running collector"
#: The judge that calls no model.
_EXACT: Final = "exact"


@click.command(cls=HelpfulCommand)
@target_options
@cases_option
@labels_option
@click.option(
    "--rows",
    multiple=True,
    type=FILE,
    help="A RAGAS, NeMo Evaluator or Fair Forge dataset (JSON lines, JSON, CSV, Parquet): compute metrics of its rows, in memory; "
    "with --db, store the rows as conversations and evaluate the store. Without --db, --config may be a configuration of NeMo "
    "Evaluator (JSON). Repeatable.",
)
@judge_option
@click.option(
    "--compat",
    type=click.Choice(["fair-forge", "ragas", "agent-surface", "agentest"]),
    help="Score with the arithmetic of another system, including its defects.",
)
@click.option(
    "--evaluation",
    metavar="NAME",
    help="Store the scores under this name, next to those of other evaluations. Default: `default`, or compat:SYSTEM with "
    "--compat. Only the default evaluation is used in windows, monitors and telemetry.",
)
@click.option(
    "--metrics",
    metavar="NAMES",
    help="Compute only these metrics in addition to the scores: metrics, evaluators or families, comma-separated; default, all, "
    "none. Default: as configured (all that call no model).",
)
@click.option(
    "--evaluator",
    "evaluators",
    metavar="FILE:NAME",
    multiple=True,
    help="Run your own evaluator from a Python file; repeatable.",
)
@click.option(
    "--match-text",
    "match_text",
    type=click.Choice(["off", "suggest", "auto"]),
    help="What to do if the text of a conversation paraphrases a case: nothing, suggest the case, or match it. Default: as "
    "configured (suggest).",
)
@click.option("--fuzzy/--no-fuzzy", default=None, help="Same as --match-text auto, or off.")
@conversation_options
@click.option(
    "--suite", metavar="TAG", help="Only conversations that belong to a case with this tag, such as regression."
)
@click.option(
    "--close-open",
    is_flag=True,
    help="First close the conversations that are open because no collector runs on the store.",
)
@click.option("--force", is_flag=True, help="Score conversations again that already have a score.")
@click.option(
    "--details", is_flag=True, help="Print every metric; those named by --metrics or --evaluator are always printed."
)
@yes_option
@output_option("table", "json", "nemo", note="; nemo: the results of --rows in the shape of NeMo Evaluator")
@quiet_option
def evaluate(
    target: Target,
    cases: tuple[Path, ...],
    labels: tuple[Path, ...],
    rows: tuple[Path, ...],
    judge: str | None,
    compat: str | None,
    evaluation: str | None,
    metrics: str | None,
    evaluators: tuple[str, ...],
    match_text: str | None,
    fuzzy: bool | None,
    selection: Selection,
    suite: str | None,
    close_open: bool,
    force: bool,
    details: bool,
    yes: bool,
    output: str,
    quiet: bool,
) -> int:
    """Match closed conversations to cases and score them.

    Cases and labels are stored and used by later runs. A conversation keeps its score while ground truth, judge and settings
    stay the same. The judge is asked again if it failed, or was not asked because the budget was spent. Verdicts are stored
    one by one: after Ctrl-C or a crash, the next run continues. Metrics are computed for all scored conversations that do
    not have them yet.
    """
    if rows and (target.db is None or target.server is not None):
        return evaluate_row_files(click.get_current_context())
    if output == "nemo":
        raise UsageError("--format nemo: only for --rows without --db; --format json has the results of a store")
    if rows:
        keep_rows(target.settings(), rows, quiet=quiet or output == "json")
    truth = truth_of(target.settings(), cases, labels)
    chosen = selection.arguments
    chosen["evaluation"] = evaluation or (f"compat:{compat}" if compat else None)
    scoring = present(judge=judge, compat=compat)
    text = match_text if fuzzy is None else "auto" if fuzzy else "off"
    if match_text not in {None, text}:
        raise UsageError(
            "give --match-text or --fuzzy/--no-fuzzy, not both: --fuzzy is --match-text auto, --no-fuzzy is --match-text off"
        )
    settings = target.settings(scoring=scoring)
    used = _own_judge(settings, target.server)
    sections: dict[str, Section] = {
        "scoring": scoring,
        "matching": present(text=text),
        **own_files(target.config_file, evaluators),
    }
    names = metrics_of(metrics, evaluators)
    arguments: Section = {**truth, **chosen, "suite": suite, "metrics": names, "force": force, "close_open": close_open}
    waiting = _WAITING if used == _EXACT else _WAITING_FOR_JUDGE.format(judge=used)
    if used != _EXACT and not yes:
        with target.open(lambda *_: None, **sections) as client:
            confirm_cost(
                client.get(JudgeQuestions, "evaluate_forecast", **arguments),
                settings.judge,
                quiet=quiet or output == "json",
            )
    with (
        progress_bar(quiet=quiet) as bar,
        reporting_waits(waiting, bar, quiet=quiet) as progress,
        target.open(progress, **sections) as client,
    ):
        require_own_file(client, "evaluate", {**scoring, **present(**{"match-text": text})})
        require_no_files(client, evaluators)
        done = client.get(EvaluationRun, "evaluate", **arguments)
        is_empty = not (done.scored or done.unchanged or done.stopped)
        open_conversations = open_conversations_of(client, selection, is_empty=True) if is_empty else None
    prints_metrics = details or bool(names) or bool(evaluators)
    has_closed = open_conversations is None or open_conversations.others > 0
    show = partial(_print_result, details=prints_metrics, has_closed=has_closed)
    print_result(done, output, show, quiet=quiet)
    if output == "json" or quiet:
        return INTERRUPTED if done.stopped else 0
    if open_conversations is not None and (open_conversations.open or not open_conversations.others):
        say_empty(console(), open_conversations)
    return INTERRUPTED if done.stopped else 0


def _own_judge(settings: Settings, server: str | None) -> str:
    """Return the judge that this process calls; `exact` if a running collector uses its own.

    Raises:
        UsageError: a package that the judge needs is missing.
    """
    from otel_agentic.judges.registry import require_packages  # noqa: PLC0415 — not needed for --help
    from otel_agentic.net.server_file import find_live_server  # noqa: PLC0415 — same

    if server is not None or find_live_server(settings.store.db) is not None:
        return _EXACT
    require_packages(settings.scoring.judge)
    return settings.scoring.judge


def _print_result(done: EvaluationRun, *, details: bool, has_closed: bool) -> None:
    out = console()
    _print_evaluation(out, done)
    print_skipped(out, done.evaluators.left_out)
    if done.scored:
        _print_outcomes(out, done)
    elif not done.unchanged and not done.stopped:
        unscored = "no closed conversation of this selection lacks a score (--force scores them again)"
        say(out, f"nothing to score: {unscored if has_closed else 'no closed conversations in this selection'}")
        if not done.evaluators.conversations:
            return
    if done.unchanged:
        unchanged = plural(done.unchanged, "conversation")
        say(out, f"{unchanged} asked about again: the judge still has no verdict")
    print_metric_notes(out, done.evaluators, details=details)
    for line in judge_notes(done.judge):
        say(out, line)
    for warning in [*score_warnings(done), *done.warnings[:_WARNINGS]]:
        say(out, f"warning: {warning}", style="yellow")
    if len(done.warnings) > _WARNINGS:
        say(
            out,
            f"… and {len(done.warnings) - _WARNINGS:,} more; `otel-agentic truth matches --only warning` lists them",
        )
    for line in dict.fromkeys([*advice(done.reasons), *metric_advice(done.evaluators.metrics)]):
        say(out, line)
    if done.stopped:
        say(out, "stopped: verdicts so far are kept; run the same command to continue", style="bold")


def _print_evaluation(out: Console, done: EvaluationRun) -> None:
    cases, labels = plural(done.cases, "case"), plural(done.labels, "label")
    say(out, f"{cases} and {labels} now current; evaluator version {done.evaluation_id}")
    if done.evaluation != "default":
        command = f"`otel-agentic report --evaluation {done.evaluation}`"
        say(out, f"evaluation {done.evaluation}: scores of other evaluations are unchanged; {command} shows these")


def _criterion_lines(done: EvaluationRun) -> Iterator[str]:
    """Yield what each criterion decided and cost, and what would change if only answers decided."""
    criteria = {name: counts for name, counts in done.criteria.items() if name != WITHOUT_CASE}
    if len(criteria) > 1:
        for name, counts in criteria.items():
            line = f"decided by {name}: {counts.passed:,} pass, {counts.fail:,} fail"
            line += f" ({counts.alone:,} by this alone)" if counts.alone else ""
            line += f", {counts.not_evaluated:,} not evaluated" if counts.not_evaluated else ""
            line += (
                f" ({plural(counts.uncovered, 'conversation')} without an outcome because of it)"
                if counts.uncovered
                else ""
            )
            yield line
    answers, passed = done.answers, done.outcomes.get("pass", 0)
    if answers is not None and set(done.criteria) != {"answer"} and answers.passed != passed:
        yield f'with scoring.criteria = ["answer"], {answers.passed:,} would pass instead of {passed:,}'


def _print_outcomes(out: Console, done: EvaluationRun) -> None:
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(done.outcomes.items()))
    coverage_note = f"; coverage {percent(done.coverage)}" if done.n < done.scored else ""
    say(out, f"{plural(done.scored, 'conversation')} scored: {counts}{coverage_note}", style="bold")
    for reason, count in sorted(done.reasons.items()):
        say(out, f"  {count:,} x {reason}")
    for line in _criterion_lines(done):
        say(out, line)
    asked_again = done.asked_again - done.unchanged
    if asked_again:
        say(out, f"{asked_again:,} of them had no verdict: the judge had failed, or was not asked")
    if done.restated > asked_again:
        say(out, f"{done.restated - asked_again:,} of them had an earlier score, which is kept as superseded")
