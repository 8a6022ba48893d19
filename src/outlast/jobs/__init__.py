"""Batch jobs over targets that fail alone: run, ledger, gate and summary; and the order of an ETL's writes."""
