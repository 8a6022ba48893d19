"""The interface between Outlast and its stores: row types, and one small protocol per duty."""
