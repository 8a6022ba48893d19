"""The tour: real failures on this machine alone, and what Holdfast makes of them."""
