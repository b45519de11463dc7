"""The lowest layer: what every other folder may use and what knows nothing of graphs."""
