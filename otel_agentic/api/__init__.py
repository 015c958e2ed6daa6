"""The Python API: evaluate conversations in memory, open a store, data frames."""
