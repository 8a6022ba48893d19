"""One suite for all stores, organised by duty: what a store promises, it promises on every database."""
