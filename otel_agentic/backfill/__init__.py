"""Evaluation of past hours: the plan, the run, and where the results go."""
