"""Programs that show Holdfast at work."""
