"""Real processes that die by SIGKILL, and the books afterwards."""
