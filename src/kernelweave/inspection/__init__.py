"""Results as text and plots; alignment of kernels with labels."""
