"""The quality gate: what must hold of each agent, held against what was found; a table of rows and one verdict."""
