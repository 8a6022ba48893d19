"""Read models: pure functions that turn a store's rows into the texts and figures of pages, commands and checks."""
