"""`python -m equifactor` is the command `equifactor`."""

import sys

from equifactor.cli import main

if __name__ == "__main__":
    sys.exit(main())
