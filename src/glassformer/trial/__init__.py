"""A model on trial: whether it keeps the laws of search, and how fast it is beside others."""
