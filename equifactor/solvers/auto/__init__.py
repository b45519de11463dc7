"""The solver `auto`: it picks a method, or runs a portfolio of methods, one file per kind of task."""
