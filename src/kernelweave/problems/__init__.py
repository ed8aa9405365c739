"""What is solved: losses, their dual quadratic program, and sets of kernel weights."""
