"""A table of data, its views, and the rows that a kernel reads."""
