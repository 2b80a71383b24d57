"""Benchmarks: replay recorded sessions under policies or other tools; measure tokens, cost and visibility."""
