"""Processes below a process."""

from __future__ import annotations

import subprocess


def below(root: int, mark: str) -> list[int]:
    """The processes below `root` whose command has `mark`; children come after their parents."""
    listed = subprocess.run(["ps", "-ewwo", "pid,ppid,args"], capture_output=True, check=True)
    rows = [line.split(None, 2) for line in listed.stdout.decode().splitlines()[1:]]
    children: dict[int, list[int]] = {}
    commands: dict[int, str] = {}
    for own, parent, *rest in rows:
        children.setdefault(int(parent), []).append(int(own))
        commands[int(own)] = rest[0] if rest else ""
    found: list[int] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop(0)
        if pid != root and mark in commands.get(pid, ""):
            found.append(pid)
        waiting += children.get(pid, [])
    return found
