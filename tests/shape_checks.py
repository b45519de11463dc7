"""How arguments are checked while the tests run; `conftest` puts it on every module that states shapes."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))  # An int is a float, as it is for type checkers.
