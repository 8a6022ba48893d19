"""The long run: load, and all that can happen to it, on both databases; then the books balance to the last task."""
