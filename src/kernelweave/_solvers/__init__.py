"""Numerical methods behind the learners. Internal: nothing here is promised to stay."""
