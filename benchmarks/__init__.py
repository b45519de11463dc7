"""Measurements, run by hand; a package so that `io.py` in it is not taken for the standard library's."""
