"""Temporary folders that other users cannot enter."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile


def private_folder(prefix: str) -> str:
    """Create a folder with a random name that only this user can enter. It is removed when this process ends."""
    folder, owner = tempfile.mkdtemp(prefix=prefix), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # A process that was forked must not remove the folder.
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
