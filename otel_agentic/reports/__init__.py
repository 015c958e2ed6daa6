"""What the stored results mean: reports, comparisons, failure groups, the gate, suites, calibration."""
