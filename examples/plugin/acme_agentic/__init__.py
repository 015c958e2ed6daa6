"""A package of plug-ins: one dialect, one judge, three evaluators, one estimator and one collector."""
