"""Evaluation of stored conversations: runs of judges and evaluators, sampling, and the active ground truth."""
