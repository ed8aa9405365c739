"""Experiments that ask how right we are: certified gaps, and accuracy on new rows."""
