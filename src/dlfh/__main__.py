"""`python -m dlfh` is `dlfh`."""

import sys

from dlfh.cli import main

sys.exit(main())
