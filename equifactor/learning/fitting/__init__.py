"""Learning potentials from data: `equifactor.fit`.

| symbol | meaning |
|---|---|
| N, V, F, T | rows of data, variables, factors, table entries of all factors |
| `data.states [N, V]` | `DataRows`: the number of the state, -1 for a missing value |
| `counts [T]` | how often each table entry was seen, or is expected to have been seen |
| `prior [T]` | counts before any data: the parameters of Dirichlet distributions |
| `cpts` | `ConditionalTables`: the conditional probability tables of a network, and which of them are learned |
| `parameters`, `theta [P]` | `LearnedParameters`: the log table entries that a gradient learns, and their values |

`fitter.py` holds `fit`, `data_rows.py` reads data of any form, and a method is one file and one line in `METHODS`.
"""
