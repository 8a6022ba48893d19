"""Events about what happened, and the bus that publishes them."""
