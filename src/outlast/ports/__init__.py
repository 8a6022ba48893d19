"""What a store keeps and what is asked of it: row types, and one small protocol per duty."""
