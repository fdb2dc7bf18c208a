"""Values from the variables of the environment.

Nothing here reads the environment of the process: every function takes a mapping. The edges of the
package pass `os.environ`: the command line, `omnigraph.init` and `open`, the choice of Spark, and
what Spark starts by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Final

from omnigraph.runtime.settings import Settings

SETTING_PREFIX: Final = "OMNIGRAPH_"
HOME_VARIABLE: Final = "OMNIGRAPH_HOME"
TOKEN_VARIABLE: Final = "OMNIGRAPH_BEARER_TOKEN"

# The spelling of the storage layer, and the variables that the usual tools read, the first wins.
_STORAGE_VARIABLES: Final = {
    "aws_access_key_id": ("AWS_ACCESS_KEY_ID",),
    "aws_secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "aws_session_token": ("AWS_SESSION_TOKEN",),
    "aws_region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "aws_endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "allow_http": ("AWS_ALLOW_HTTP",),
}


def settings(variables: Mapping[str, str]) -> Settings:
    """The defaults with what variables choose, such as OMNIGRAPH_CACHE_BYTES_MAX.

    Raises:
        InvalidInput: A value is wrong; the message names its variable.
    """
    chosen = Settings()
    for item in fields(Settings):
        variable = f"{SETTING_PREFIX}{item.name.upper()}"
        if (value := variables.get(variable)) is not None:
            chosen = Settings.from_mapping({item.name: value}, origin=variable, base=chosen)
    return chosen


def storage_options(uri: str, variables: Mapping[str, str]) -> dict[str, str]:
    """The options that reach a place, from the variables; none for local places."""
    if not uri.lower().startswith("s3://"):
        return {}
    options: dict[str, str] = {}
    for option, names in _STORAGE_VARIABLES.items():
        value = next((variables[name] for name in names if variables.get(name)), None)
        if value is not None:
            options[option] = value
    if options.get("aws_endpoint", "").lower().startswith("http://"):
        # Such an endpoint was named on purpose.
        options.setdefault("allow_http", "true")
    return options


def home_folder(variables: Mapping[str, str]) -> Path:
    """The user's own folder, for what no graph depends on."""
    home = variables.get(HOME_VARIABLE)
    return Path(home) if home else Path.home() / ".omnigraph"


def cache_folder(variables: Mapping[str, str]) -> Path:
    """The folder of structures that are kept for the next process. All of it may be deleted."""
    return home_folder(variables) / "cache"
