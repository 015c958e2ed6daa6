"""Nothing here is a test, and most of it needs a framework that is not installed for the tests."""

collect_ignore_glob = ["*.py"]
