"""`python -m transformer`, the same as `tinygrad-attn`."""

import sys

from transformer.cli import main

if __name__ == "__main__":
    sys.exit(main())
