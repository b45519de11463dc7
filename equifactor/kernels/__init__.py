"""Compiled loops and tensor operations that know nothing of graphs: arithmetic, heaps, random numbers, pointers."""
