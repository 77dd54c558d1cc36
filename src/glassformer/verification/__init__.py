"""Checks of a model: invariants of search, and parity with other programs."""
