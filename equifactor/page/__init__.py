"""The page that shows a model, results or a training run: `equifactor view`, and `open_view` in Python.

opening.py                      what a path is, and the viewer for it
viewer.py                       which of the pages below is shown, and the questions of the browser
model_session.py                a model: solvers, evidence, answers by solver and evidence
model_picture.py                its variables, factors and tables
graph_layout.py                 where variables and factors are drawn
message_trace.py                a run of a solver, iteration by iteration
orbits.py, orbit_search.py      which variables and factors are interchangeable
results_page.py, training_page.py     folders of `evaluate`, logs of `train`
page_server.py, page_export.py  the page by HTTP on this machine alone, and as one file
plain_json.py                   answers without NaN and infinite numbers
static/                         what the browser gets: HTML, style, scripts
"""
