"""Shared parts of the commands: options, line input and output, progress, help pages."""
