"""Run the command line with ``python -m splitlib.cli``."""

import sys

from splitlib.cli.app import main

sys.exit(main())
