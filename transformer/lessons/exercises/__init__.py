"""Your turn: write a gradient yourself, and have it tried until the smallest input is found on which it fails."""
