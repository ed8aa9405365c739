"""[chapelle2008]: HessianMKL as published."""
