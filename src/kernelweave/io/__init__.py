"""Load data sets by name."""
