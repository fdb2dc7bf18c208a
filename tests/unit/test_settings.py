"""Settings: judged completely, with origin and a hint, and never read from anywhere."""

import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import Code, InvalidInput
from omnigraph.runtime.settings import Settings


def test_defaults_are_valid_and_frozen() -> None:
    settings = Settings()
    assert pickle.loads(pickle.dumps(settings)) == settings
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.diagnostics_max = 3  # type: ignore[misc]


def test_every_setting_is_documented() -> None:
    for item in dataclasses.fields(Settings):
        assert f"{item.name}:" in (Settings.__doc__ or "")


def test_values_are_laid_over_the_base() -> None:
    base = Settings(diagnostics_max=7)
    settings = Settings.from_mapping({"source_bytes_max": "2048"}, origin="flag", base=base)
    assert settings == Settings(diagnostics_max=7, source_bytes_max=2048)
    assert Settings.from_mapping({}, origin="nothing") == Settings()


def test_an_unknown_name_is_an_error_with_a_hint() -> None:
    with pytest.raises(InvalidInput) as caught:
        Settings.from_mapping({"diagnostic_max": 3}, origin="people.toml")
    assert caught.value.code is Code.SETTINGS_INVALID
    assert "did you mean 'diagnostics_max'?" in str(caught.value)
    assert caught.value.details["origin"] == "people.toml"


def test_all_problems_are_told_at_once() -> None:
    values = {"diagnostics_max": 0, "source_bytes_max": "many", "zzz": 1}
    with pytest.raises(InvalidInput) as caught:
        Settings.from_mapping(values, origin="test")
    problems = caught.value.details["problems"]
    assert isinstance(problems, list)
    assert [problem["setting"] for problem in problems] == list(values)


@pytest.mark.parametrize("value", [True, 1.0, None, "", "-1", "1e3", "²", [1], 1 << 31])
def test_values_that_are_no_bound_are_refused(value: object) -> None:
    with pytest.raises(InvalidInput):
        Settings.from_mapping({"source_bytes_max": value}, origin="test")


def test_the_constructor_judges_too() -> None:
    with pytest.raises(InvalidInput, match="from 1 to 100000"):
        Settings(diagnostics_max=0)


@given(st.integers(min_value=1, max_value=100_000))
def test_text_and_number_mean_the_same(value: int) -> None:
    one, other = (
        Settings.from_mapping({"diagnostics_max": spelled}, origin="test")
        for spelled in (value, f" {value} ")
    )
    assert one == other
