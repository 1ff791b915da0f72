"""The commands of `tinygrad-attn`, one per file: each has `run(arguments)`, which returns the exit code."""
