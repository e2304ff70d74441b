"""Benchmarks: speed beside recall and bytes, peers measured in the same run."""
