"""Sources that are polled for years: their book, their health, and the monitor that polls them."""
