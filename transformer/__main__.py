"""`python -m transformer`, the same as `tinygrad-attn`: starts the command line, and can be interrupted meanwhile."""

import sys


def main() -> int:
    """Runs the command; imports nothing before, so that Ctrl-C is one line from the first moment on."""
    try:
        from transformer.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("tinygrad-attn: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
