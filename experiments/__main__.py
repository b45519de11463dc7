"""`python -m experiments`."""

import sys

from experiments.experiment_commands import main

if __name__ == "__main__":  # Worker processes import this module too.
    sys.exit(main())
