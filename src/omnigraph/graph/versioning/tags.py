"""Tags, as the facade shows them: names for commits."""

from __future__ import annotations

from omnigraph.core.manifest.refs import TagRecord
from omnigraph.core.repository import Repository
from omnigraph.core.revisions import Revision, Revisions
from omnigraph.graph.arguments import key_of
from omnigraph.policy.authorization import Authorizer, Permission
from omnigraph.results.commits import Tag, time_of
from omnigraph.types import MAIN, Actor, CommitMessage, TagName


class Tags:
    """The tags of one graph; `graph.tags`."""

    __slots__ = ("_actor", "_authorizer", "_repo")

    def __init__(self, repo: Repository, authorizer: Authorizer, actor: str | None = None) -> None:
        """Show and change the tags of this repository, on behalf of an actor."""
        self._repo = repo
        self._authorizer = authorizer
        self._actor = actor

    def create(
        self,
        name: str,
        at: Revision = MAIN,
        *,
        message: str | None = None,
        actor: str | None = None,
        force: bool = False,
        idempotency_key: str | None = None,
    ) -> Tag:
        """Give a commit a name, which may be used in place of its id.

        A tag moves no branch. As long as it is there, the branch of the commit cannot be deleted.

        Example:
            ```python
            tag = graph.tags.create("v1", message="as published")
            graph.mutate('query more() { insert Person { name: "Cy" } }')
            assert graph.snapshot(at="v1").commit == tag.commit
            ```

        Args:
            name: What a branch may be called, and no branch is.
            at: The commit: its id, another tag, a branch, `main~3` or a time; see `Graph.snapshot`.
            message: What the tag is about.
            actor: Who does it; the actor of the handle if not given.
            force: Take the name from the commit that has it. Otherwise that is refused.
            idempotency_key: Names the operation, so that repeating it does it once.

        Raises:
            Conflict: The name belongs to another commit (code `tag_exists`), or to a branch.
            NotFound: There is no such commit.
        """
        known = TagName(name)
        who = self._actor if actor is None else Actor(actor)
        self._authorizer.ask(Permission.TAG_CHANGE, actor=who)
        key = key_of(idempotency_key, "tag_create", name, str(at))
        earlier = self._repo.refs.tag_made(known, key)
        if earlier is not None:
            return _shown(earlier)
        version = Revisions(self._repo).resolve(at)
        self._authorizer.ask(Permission.TAG_CHANGE, version.branch, actor=who)
        made = self._repo.refs.create_tag(
            known,
            version,
            actor=who,
            message=None if message is None else CommitMessage(message),
            force=bool(force),
            key=key,
        )
        return _shown(made)

    def list(self) -> list[Tag]:
        """All tags, sorted by name.

        Example:
            ```python
            assert graph.tags.list() == []
            ```
        """
        self._authorizer.ask(Permission.READ)
        return [_shown(tag) for tag in self._repo.refs.tags().values()]

    def get(self, name: str) -> Tag:
        """One tag by its name.

        Raises:
            NotFound: There is none of this name.
        """
        self._authorizer.ask(Permission.READ)
        return _shown(self._repo.refs.tag(TagName(name)))

    def delete(
        self, name: str, *, actor: str | None = None, idempotency_key: str | None = None
    ) -> Tag:
        """Delete a tag and return what it was. The commit stays.

        Example:
            ```python
            graph.tags.create("draft-7")
            graph.tags.delete("draft-7")
            ```

        Args:
            name: The tag.
            actor: Who does it; the actor of the handle if not given.
            idempotency_key: Names the operation, so that repeating it does it once.
        """
        who = self._actor if actor is None else Actor(actor)
        self._authorizer.ask(Permission.TAG_CHANGE, actor=who)
        key = key_of(idempotency_key, "tag_delete", name)
        return _shown(self._repo.refs.delete_tag(TagName(name), actor=who, key=key))


def _shown(tag: TagRecord) -> Tag:
    return Tag(
        name=str(tag.name),
        commit=str(tag.commit),
        branch=str(tag.branch),
        actor=tag.actor,
        created_at=time_of(tag.created_at),
        message=tag.message,
    )
