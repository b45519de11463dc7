"""The numbers of the kinds that compiled kernels know, from the table of kinds; kernels use them as constants."""

from equifactor.graph.kinds import kind_number

SPARSE, PARITY, CLAUSE = kind_number("sparse"), kind_number("parity"), kind_number("clause")
COUNT, NOISY_OR = kind_number("count"), kind_number("noisy_or")
POTTS, TRUNCATED_LINEAR = kind_number("potts"), kind_number("truncated_linear")
