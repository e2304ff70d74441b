"""Fits the constants that the index ships, and says how good they are."""
