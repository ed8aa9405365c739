"""The machine at given weights: sequential minimal optimization and the curvature of J."""
