"""``python -m kernelweave``: the command line."""

from .cli import main

raise SystemExit(main())
