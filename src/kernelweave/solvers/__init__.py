"""Inner solvers: the support vector machine at fixed kernel weights."""
