"""Sampling: Gibbs chains over single variables and over large blocks, and diagnostics of their draws."""
