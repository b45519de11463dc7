"""Text tables, HTML tables, pictures and layouts of models, plans, answers, comparisons and training logs.

Models and answers call these modules to show themselves, so no module here imports their classes at run time.

text_tables.py                    tables as aligned text, Markdown, LaTeX and rich tables
html_tables.py                    tables as HTML for notebooks
graph_display.py                  a factor graph as one line, as a list of facts, as HTML
answer_html.py, uncertain.py      a `Result` as HTML; which variables come first
canvas.py                         matplotlib, colours and names, shared by all pictures
graph_picture.py, answer_picture.py, comparison_picture.py, training_picture.py     one picture each
plot.py                           `ef.plot`: pictures of several answers
network_picture.py                the picture of a Bayesian network in layers
graph_layout.py, grid_shapes.py   where variables and factors are drawn; which graphs are grids
layered_layout.py, packing.py     networks in layers; the connected parts of a graph beside each other
"""
