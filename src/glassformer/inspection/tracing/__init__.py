"""Activation recording, traces of single translations, and the trace file format."""
