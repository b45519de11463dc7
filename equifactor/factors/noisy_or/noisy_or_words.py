"""The first word of a noisy-or: where its effect is.

Kernels are compiled again when a module changes that they import, so these constants have a module of their own.
"""

OFF, ON, IN_SCOPE = 0, 1, 2  # The effect is absent, present, or at place n of the scope (2 + n).
