"""Cutsets: variables that are held fixed so that the other variables can be eliminated in little memory."""
