"""The machine at given kernel weights, and the record of what it proved."""
