"""Run the command line with ``python -m splitlib``."""

import sys

from splitlib.cli.app import main

sys.exit(main())
