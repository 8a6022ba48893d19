"""The pages, a file per subject: what each reads and what can be done on it."""
