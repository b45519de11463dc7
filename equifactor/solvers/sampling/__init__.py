"""Sampling: Gibbs chains over single variables and over large blocks, and what their draws tell."""
