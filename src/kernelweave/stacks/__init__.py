"""m kernel matrices over n points, as the solvers see them."""
