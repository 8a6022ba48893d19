"""Sources that are polled for years: their registry, their health, and the monitor that polls them."""
