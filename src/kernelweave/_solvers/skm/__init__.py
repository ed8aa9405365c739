"""The support kernel machine under Moreau-Yosida regularization."""
