"""Run: decisions acted on in this process."""
