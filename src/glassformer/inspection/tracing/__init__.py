"""Traces: recording taps, tracing a translation, and the trace as a file."""
