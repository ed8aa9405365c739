"""Enclosing balls, and descent on objectives that contain their radius."""
