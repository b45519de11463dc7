"""Runs that produce the figures, tables and weights of this repository; each file states its command."""
