"""Bach, Lanckriet and Jordan (2004): the support kernel machine."""
