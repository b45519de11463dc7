"""The page that shows a model, results or a training run: `equifactor view`, and `open_view` in Python.

opening.py                          which page a path needs; `open_view`
viewer.py                           the page that is shown now, and the routes of its requests
model_session.py                    a model: solvers, evidence, answers by solver and evidence
model_picture.py                    the variables, factors and tables of a model, and where they are drawn
code_graph.py                       codes (.dem, .stim, .alist, .npz) as graphs
message_trace.py                    a run of a solver, iteration by iteration
orbits.py, orbit_search.py          which variables and factors are interchangeable
results_page.py, training_page.py   folders of `evaluate`, logs of `train`
page_server.py, page_export.py      the page by HTTP for this machine only, and as one file
plain_json.py                       answers without NaN and infinite numbers
static/                             what the browser loads: HTML, style, scripts
"""
