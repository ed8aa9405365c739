"""Cuts of past machines, and the small problem that turns them into the next weights."""
