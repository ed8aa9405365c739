"""Machine and weights as cone programs, and the one door to a conic solver."""
