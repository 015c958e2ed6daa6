#!/bin/sh
# A CI job: score the spans of a test run against its cases, and fail unless the agent is good enough.
#
#   sh ci_gate.sh SPANS CASES [more options of `otel-agentic gate`]
#
# SPANS is a file or folder that the OpenTelemetry Collector's file exporter wrote (or any OTLP/JSON lines), CASES contains
# the expected answers and calls. gate.xml is JUnit XML, which most CI systems show as tests. In GitHub Actions, also pass
# `--format github`. Exit codes: 0: passed, 1: a condition does not hold, 2: a condition is invalid, 3: a file cannot be read.
set -eu
spans=$1
cases=$2
shift 2

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

otel-agentic ingest "$spans" --db "$folder/run.duckdb" --quiet
otel-agentic evaluate --db "$folder/run.duckdb" --cases "$cases" --quiet
otel-agentic gate --db "$folder/run.duckdb" \
    --min-n 6 --min-coverage 0.9 --min-pass-pow-k 3=0.7 --fail-on-severity critical \
    --junit gate.xml "$@"
