"""Other people's engines: what runs tasks in Outlast's place, and asks it what to do when they fail."""
