"""Measurements that are run by hand. They form a package so that `io.py` does not hide the module `io` of Python."""
