"""``python -m kernelweave``: the command line."""

from kernelweave._cli.main import main

raise SystemExit(main())
