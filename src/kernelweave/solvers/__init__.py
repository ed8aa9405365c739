"""What learners solve on the way: machines at given weights, next weights, balls, cones."""
