"""What keeps open pages live: one read of the store per tick and process, told to all who look."""
