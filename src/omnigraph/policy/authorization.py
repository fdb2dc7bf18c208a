"""Authorization: who may do what, on which branch, to which types.

Every public call is checked here before it reads or writes anything: first with the branch that it
names, and once more as soon as the types are known that it is about. A policy answers by returning,
or by raising `Forbidden`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol


class Permission(StrEnum):
    """The kinds of access that a policy distinguishes."""

    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    SCHEMA_APPLY = "schema_apply"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    BRANCH_PROTECT = "branch_protect"
    TAG_CHANGE = "tag_change"
    INVOKE_QUERY = "invoke_query"
    MAINTAIN = "maintain"
    GRAPH_LIST = "graph_list"


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """A request for access.

    Attributes:
        actor: On whose behalf the call runs; None if no actor was given.
        action: The kind of access.
        branch: The branch that is read or changed; None where it is about the whole graph.
        types: The types that it is about (`node:Person`); None as long as they are not known, or
            where it is about none in particular.
        source: The branch that another one is made from or that is merged.
        query: The name of the stored query that is called.
    """

    actor: str | None
    action: Permission
    branch: str | None = None
    types: frozenset[str] | None = None
    source: str | None = None
    query: str | None = None


class Policy(Protocol):
    """A policy: decides on accesses."""

    def authorise(self, request: AccessRequest) -> None:
        """Return if the access is allowed.

        Raises:
            Forbidden: It is not.
        """
        ...


class AllowAll:
    """The policy that allows everything."""

    def authorise(self, request: AccessRequest) -> None:
        """Allow it."""


ALLOW_ALL: Final[Policy] = AllowAll()


class Authorizer:
    """Checks the calls of one handle by a policy, on behalf of an actor."""

    __slots__ = ("_actor", "policy")

    def __init__(self, policy: Policy, actor: str | None = None) -> None:
        """Check by this policy, on behalf of an actor."""
        self.policy = policy
        self._actor = actor

    def ask(
        self,
        action: Permission,
        branch: str | None = None,
        *,
        types: Iterable[str] | None = None,
        actor: str | None = None,
        source: str | None = None,
    ) -> None:
        """Return if the actor may do this.

        Args:
            action: The kind of access.
            branch: The branch that is read or changed.
            types: The types, if they are known.
            actor: On whose behalf, if it is not the actor of the handle.
            source: The branch that another one is made from or that is merged.

        Raises:
            Forbidden: The policy says no.
        """
        if self.policy is ALLOW_ALL:
            return  # a point query takes microseconds, and everything is allowed
        who = self._actor if actor is None else actor
        keys = None if types is None else frozenset(types)
        self.policy.authorise(AccessRequest(who, action, branch, keys, source))
