"""The check of arguments while the tests run; `conftest` applies it to every module that states shapes."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))  # An int is a float, as it is for type checkers.
