"""The tests: one folder per package, plus properties, regressions, parity, and what concerns the project as a whole."""
