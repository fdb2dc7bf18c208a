"""What the variables of a process say to those who open graphs. Pure: the caller reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# The spelling of the storage layer, and the variables that the usual tools read, the first wins.
_OPTIONS = {
    "aws_access_key_id": ("AWS_ACCESS_KEY_ID",),
    "aws_secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "aws_session_token": ("AWS_SESSION_TOKEN",),
    "aws_region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "aws_endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "allow_http": ("AWS_ALLOW_HTTP",),
}


def storage_options(uri: str, variables: Mapping[str, str]) -> dict[str, str]:
    """How to reach a place, as far as variables say so; nothing for local ones."""
    if not uri.lower().startswith("s3://"):
        return {}
    options: dict[str, str] = {}
    for option, names in _OPTIONS.items():
        value = next((variables[name] for name in names if variables.get(name)), None)
        if value is not None:
            options[option] = value
    if options.get("aws_endpoint", "").lower().startswith("http://"):
        # Whoever names such an endpoint means it.
        options.setdefault("allow_http", "true")
    return options


def home_folder(variables: Mapping[str, str]) -> Path:
    """The user's own folder, for what no graph depends on."""
    home = variables.get("OMNIGRAPH_HOME")
    return Path(home) if home else Path.home() / ".omnigraph"


def cache_folder(variables: Mapping[str, str]) -> Path:
    """Where derived structures are kept for the next process. Everything in it may be deleted."""
    return home_folder(variables) / "cache"
