"""The door: models leave for other programs here. Only the command line and the engine's second kind know of it."""
