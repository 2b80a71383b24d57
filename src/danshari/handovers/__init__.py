"""The hand-over document that takes the place of older rounds: worked out, checked and written without I/O."""
