"""Compiled loops and numerical routines that know nothing of graphs."""
