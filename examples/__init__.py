"""Programs that show Outlast at work."""
