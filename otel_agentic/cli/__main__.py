"""`python -m otel_agentic.cli`: the same as `otel-agentic`."""

from otel_agentic.cli import main

if __name__ == "__main__":
    main()
