"""The tour: real failures on this machine alone, and what Outlast makes of them."""
