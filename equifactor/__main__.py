"""`python -m equifactor` is the command `equifactor`."""

import sys

if __name__ == "__main__":
    try:
        from equifactor.cli import main

        status = main()
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)
