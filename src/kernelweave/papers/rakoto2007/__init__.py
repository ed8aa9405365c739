"""[rakoto2007]: SimpleMKL, and the linear program that it is compared with."""
