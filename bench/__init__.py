"""Measurements. `python -m bench` runs every group, `python -m bench compile` only that one."""
