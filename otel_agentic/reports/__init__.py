"""Reports on stored results: rates, comparisons, failures, the gate, suites, calibration, charts, doctor.

Each module is imported on its own, because commands load only what they print: `report.report`, `gate.Gate`,
`failures.found_failures`, `calibration.calibrate_judge`, `promotion.promote`, `suites.of_suite`, `charts.charts`,
`doctor.read_traces`, `metric_summary.metric_summaries`.
"""
