"""The quality gate: conditions on each agent, one row per condition, and one verdict."""
