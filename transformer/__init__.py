"""Attention, the Transformer built from it, its decoder loop, training, lessons and command line."""
