"""What every part of the package uses: argument checks, parameters, compiling, warnings."""
