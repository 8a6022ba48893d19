"""Moves a SQLite file to PostgreSQL, with all data. A move can be resumed, and compares both sides at its end."""
