"""Belief propagation of the package ldpc on a code: seconds per iteration, from the difference of two limits.

The script is run as `python run_ldpc.py REQUEST`. REQUEST is a JSON object with the file of the `checks` [m, k], the
number of `bits`, the `method` (product_sum or minimum_sum) and the number of `repeats`. The script prints
`{"seconds": ..}` for one iteration.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from ldpc import BpDecoder
from scipy.sparse import csr_matrix

request = json.loads(sys.argv[1])
checks = np.load(request["checks"])
m, k = checks.shape
matrix = csr_matrix((np.ones(m * k, np.uint8), (np.repeat(np.arange(m), k), checks.ravel())), (m, request["bits"]))
# No likely error has this syndrome, so that the decoder never stops early.
syndrome = np.random.default_rng(0).integers(0, 2, m).astype(np.uint8)


def seconds(limit: int) -> float:
    """Return the least CPU time of several decodings of at most this number of iterations."""
    decoder = BpDecoder(matrix, error_rate=0.05, max_iter=limit, bp_method=request["method"], ms_scaling_factor=1.0)
    best = float("inf")
    for _ in range(request["repeats"]):
        start = time.process_time()
        decoder.decode(syndrome)
        best = min(best, time.process_time() - start)
    return best


print(json.dumps({"seconds": (seconds(22) - seconds(2)) / 20}))
