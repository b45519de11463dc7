"""The MAP experiment on real models, table 2 of the paper and what beats it: `equifactor experiment uai`.

config.py    the lines of the table, the networks and their variants, read from NAME.toml beside it
parts.py     which models are trained on and which are judged: the fixed split, and folds for small collections
training.py  one network on one part, stopped and resumed at will
solving.py   every solver on every model, a line on disk each; the best of several
anytime.py   the same under a ladder of time limits
doubles.py   test models that are training models under other names
cells.py     the numbers of the tables             single.py  model by model: proofs and gaps
report.py    the page in Markdown                  tables.py  its lines, and the table in LaTeX
figure.py    error against time, drawn
run.py       all of it in order, and the results file
"""
