"""Batch jobs: each target fails on its own. Runs, ledger, gate and summary; `outlast.jobs.etl` loads records."""
