"""Stored conversations to stored scores: runs of judges and evaluators, sampling, active ground truth."""
