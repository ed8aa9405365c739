"""Families of kernels, such as Gaussians of all widths, and learning over their convex hulls."""
