"""Kinds of factors beyond tables: each file is one kind, with its meaning, its messages and its lowering to tables."""
