"""The page of diagnostic codes says what the registries say."""

from tools.diagnostics import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"
