"""The working memory of kernels that update the log ratios of `LANES` factors of one kind and one arity side by side.

Slot s has `ROWS` rows of `LANES` numbers in `work`. The first row is the log ratio that arrives, which the kernel
replaces by the one to send. The kernel keeps the other rows. The row behind the last slot begins with one number per
factor, which `StructuredFactor.ratio_numbers` describes. One array with constant distances lets the compiler see that
the lanes do not overlap.
"""

LIMIT = 600.0  # The largest log ratio, in nats: e^-600 times a few other probabilities is a normal number.
LANES = 16  # Factors that are updated together: four vectors of four numbers.
ROWS = 4  # Rows of `work` per slot.
