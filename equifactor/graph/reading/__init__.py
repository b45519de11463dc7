"""Readers of what users type: variables, factors, arrays, evidence, rows of data."""
