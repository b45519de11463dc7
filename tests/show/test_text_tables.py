from equifactor.show.text_tables import aligned, fitted, labelled, latex, markdown

ROWS = [("name", "error"), ("bp", 0.25), ("fe-net", 1)]


def test_columns_are_aligned_and_end_without_blanks() -> None:
    assert aligned(ROWS) == "name    error\nbp      0.25\nfe-net  1"
    assert aligned(ROWS, right={1}, rule=True) == "name    error\n-------------\nbp       0.25\nfe-net      1"


def test_labels_and_values_stand_below_a_title() -> None:
    assert labelled("grid.uai", [("variables", 16), ("arity", "1-2")]) == "grid.uai\n  variables  16\n  arity      1-2"


def test_markdown() -> None:
    assert markdown(ROWS) == "| name | error |\n|---|---|\n| bp | 0.25 |\n| fe-net | 1 |"


def test_latex() -> None:
    want = r"\begin{tabular}{lr} \hline name & error \\ \hline bp & 0.25 \\ fe-net & 1 \\ \hline \end{tabular}"
    assert latex(ROWS).split() == want.split()


def test_latex_with_groups_of_rows() -> None:
    text = latex(ROWS, titles={1: "small", 2: "large"})
    want = r"\begin{tabular}{lr} \hline name & error \\ \hline \multicolumn{2}{l}{small} \\ \hline bp & 0.25 \\"
    want += r" \hline \multicolumn{2}{l}{large} \\ \hline fe-net & 1 \\ \hline \end{tabular}"
    assert text.split() == want.split()


LONG = [("NAME", "TASKS", ""), ("bp", "MAR", "belief propagation on the messages of a graph"), ("exact", "all", "sums")]


def test_a_wide_terminal_or_a_file_changes_nothing() -> None:
    assert fitted(LONG, None) == fitted(LONG, 200) == aligned(LONG)


def test_the_last_column_is_wrapped() -> None:
    assert fitted(LONG, 34).splitlines() == [
        "NAME   TASKS",
        "bp     MAR    belief propagation",
        "              on the messages of a",
        "              graph",
        "exact  all    sums",
    ]


def test_rows_become_blocks_where_nothing_can_be_wrapped() -> None:
    numbers = [("family", "KL", "seconds"), ("grids", "0.25", "1.5"), ("trees", "0", "0.5")]
    assert (
        fitted(numbers, 16, right=[1, 2])
        == "grids\n  KL       0.25\n  seconds  1.5\ntrees\n  KL       0\n  seconds  0.5"
    )


def test_labels_on_a_narrow_terminal() -> None:
    assert labelled("x", [("cost", "one two three four five")], 24) == "x\n  cost  one two three\n        four five"
    assert labelled("x", [("cost", "one two three four")], 16) == "x\n  cost  one two three four"
