"""The pages, one file per subject: what each page reads from the store, and its actions."""
