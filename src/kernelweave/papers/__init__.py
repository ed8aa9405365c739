"""The theory of each paper, under its own name."""
