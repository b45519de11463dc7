"""Learning potentials from data: `equifactor.fit`.

| symbol | meaning |
|---|---|
| N, V, F, T | rows of data, variables, factors, table entries of all factors |
| `states [N, V]` | the data: the number of the state, -1 where a value is missing |
| `counts [T]` | how often each table entry was seen, or is expected to have been |
| `prior [T]` | the same before any data: the parameters of Dirichlet distributions |

`fitter.py` is the front door. `data_table.py` reads data of any form, a method is one file and one line in `METHODS`.
"""
