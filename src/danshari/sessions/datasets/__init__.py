"""Sessions as published datasets and evaluation tools store them."""
