"""What is solved: losses, their dual quadratic program, sets of kernel weights, the machine."""
