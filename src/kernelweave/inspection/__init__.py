"""Results as text and pictures; how alike kernels and labels are."""
