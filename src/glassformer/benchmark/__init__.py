"""Speed benchmark of a model against other systems that can run it."""
