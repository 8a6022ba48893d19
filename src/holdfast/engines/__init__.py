"""Other people's engines: what runs tasks in Holdfast's place, and asks it what to do when they fail."""
