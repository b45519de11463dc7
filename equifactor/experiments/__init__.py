"""The experiments of the paper and those beyond it: `equifactor experiment NAME`.

config.py  what is compared with what, read from NAME.toml beside it
runs.py    one training or one solver, judged on the fixed test graphs; a JSON file each, so that a stop costs little
pool.py    several runs side by side
report.py  the runs as tables (Markdown, LaTeX) and as a figure
"""
