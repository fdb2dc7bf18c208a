"""The page of the command line has every command."""

from tools.commands import PAGE, page


def test_the_table_is_that_of_the_commands() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"
