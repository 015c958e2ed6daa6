"""The Python API: `otel_agentic.evaluate` with its inputs and result, data frames, and rows of other tools' datasets.

`otel_agentic` exports the public names: `evaluate` and `Evaluation`. The modules are imported when these are first used.
"""
