"""Tables, views of their columns, and the rows that kernels read."""
