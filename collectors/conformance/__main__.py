"""`python -m collectors.conformance URL`."""

from collectors.conformance._command import command

if __name__ == "__main__":
    command(prog_name="python -m collectors.conformance")
