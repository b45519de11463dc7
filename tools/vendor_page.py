"""Copy JavaScript from npm into equifactor/page/static/vendor, for `equifactor view`, and into docs/figures/vendor.

    python tools/vendor_page.py            # the versions that the lock pins, byte for byte
    python tools/vendor_page.py --update   # after a change of tools/page/package.json: makes a new lock first

npm checks its downloads against the hashes of tools/page/package-lock.json. The lock does not name a host, so any
registry or mirror can be used.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "tools" / "page"
# For each folder and package: the file in the package, and its name in the folder.
FILES = {
    ROOT / "equifactor" / "page" / "static" / "vendor": {
        "uplot": {
            "dist/uPlot.iife.min.js": "uPlot.iife.min.js",
            "dist/uPlot.min.css": "uPlot.min.css",
            "LICENSE": "uPlot.LICENSE",
        }
    },
    # The search of a site that is opened from disk, where browsers refuse workers.
    ROOT / "docs" / "figures" / "vendor": {
        "iframe-worker": {"shim/index.js": "iframe-worker.js", "LICENSE": "iframe-worker.LICENSE"}
    },
}


def main() -> None:
    """Fill the folders and write their manifests."""
    parser = argparse.ArgumentParser(description="fill the folders of vendored JavaScript from npm")
    parser.add_argument("--update", action="store_true", help="make a new lock from tools/page/package.json first")
    update = parser.parse_args().update
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name in ("package.json",) if update else ("package.json", "package-lock.json"):
            shutil.copy(LOCK / name, work / name)
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(["npm", "install" if update else "ci", *quiet], cwd=work, check=True)
        lock = json.loads((work / "package-lock.json").read_text(encoding="utf-8"))
        if update:
            for entry in lock["packages"].values():
                entry.pop("resolved", None)
            (LOCK / "package-lock.json").write_text(json.dumps(lock, indent=2) + "\n", encoding="utf-8")
        for vendor, packages in FILES.items():
            vendor.mkdir(parents=True, exist_ok=True)
            for old in vendor.iterdir():
                old.unlink()
            manifest = [copy_package(work / "node_modules", vendor, name, lock) for name in packages]
            (vendor / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def copy_package(
    modules: Path, vendor: Path, name: str, lock: dict[str, dict[str, dict[str, str]]]
) -> dict[str, object]:
    """Copy the files of one package; return its entry in the manifest."""
    entry = lock["packages"][f"node_modules/{name}"]
    hashes = {}
    for source, target in FILES[vendor][name].items():
        content = (modules / name / source).read_bytes()
        (vendor / target).write_bytes(content)
        hashes[target] = hashlib.sha256(content).hexdigest()
    return {"name": name, "version": entry["version"], "licence": entry["license"], "files": hashes}


if __name__ == "__main__":
    main()
