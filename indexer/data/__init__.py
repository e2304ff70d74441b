"""Constants that ship with the package: projection basis and head calibration, the grounding curve, demo texts."""
