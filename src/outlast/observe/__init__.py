"""Alerts, logs, metrics and traces: everything the program reports to the outside."""
