"""Experiments that ask how fast we are."""
