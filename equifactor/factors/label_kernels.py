# mypy: ignore-errors
"""The places of labels, which Potts and truncated linear factors share.

`places` has one number for each label of a factor. For Potts it is the state of the other variable with the same label,
-1 if it is missing. For truncated linear factors `places` lists the states of a variable by growing label.
"""

import numpy as np

from equifactor.graph.layout import CARD, SLOT
from equifactor.kernels.jit import kernel


@kernel
def label_places(factors, slots, which, is_potts, word_ptr, words, places):
    """Fill `places` at the words of some factors, all of them Potts or all truncated linear."""
    for p in which:
        s, word = factors[p, SLOT], word_ptr[p]
        d0, d1 = slots[s, CARD], slots[s + 1, CARD]
        first, second = words[word : word + d0], words[word + d0 : word + d0 + d1]
        by_first, by_second = np.argsort(first), np.argsort(second)
        if not is_potts:
            for x in range(d0):  # loops, because assigning slices takes 1 s longer to compile
                places[word + x] = by_first[x]
            for y in range(d1):
                places[word + d0 + y] = by_second[y]
            continue
        places[word : word + d0 + d1] = -1
        y = 0
        for x in by_first:
            while y < d1 and second[by_second[y]] < first[x]:
                y += 1
            if y < d1 and second[by_second[y]] == first[x]:
                places[word + x] = by_second[y]
                places[word + d0 + by_second[y]] = x
