"""Run the command line with `python -m dlfh`."""

import sys

from dlfh.cli import main

sys.exit(main())
