"""`python -m experiments`."""

import sys

from experiments.experiment_commands import main

if __name__ == "__main__":  # processes that are started beside import this module too
    sys.exit(main())
