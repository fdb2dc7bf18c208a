"""Just enough Markdown to hold the documentation to its word."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^(?P<fence>```+)(?P<info>[^`]*)$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"`[^`]*`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its language, the flags after it, and where it begins."""

    path: Path
    line: int
    language: str
    flags: frozenset[str]
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT).as_posix()}:{self.line}"

    @property
    def padded(self) -> str:
        """The text moved down to its own lines, so that tracebacks point into the page."""
        return "\n" * self.line + self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A Markdown file, taken apart."""

    path: Path
    blocks: tuple[Block, ...]
    links: tuple[str, ...]
    anchors: frozenset[str]


def pages() -> list[Path]:
    """Every page of the documentation."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def read(path: Path) -> Page:
    """Take a page apart into blocks, links and anchors."""
    blocks: list[Block] = []
    links: list[str] = []
    anchors: set[str] = set()
    fence: str | None = None
    info, start, body = "", 0, list[str]()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if fence is not None:
            if line.rstrip() == fence:
                language, *flags = [part.strip() for part in info.split(",")]
                text = "".join(f"{kept}\n" for kept in body)
                blocks.append(
                    Block(
                        path=path,
                        line=start,
                        language=language,
                        flags=frozenset(flags),
                        text=text,
                    )
                )
                fence = None
            else:
                body.append(line)
        elif opening := _FENCE.match(line):
            fence, info, start, body = opening["fence"], opening["info"], number, []
        else:
            if line.startswith("#"):
                anchors.add(anchor(line.lstrip("#")))
            links += [found["target"] for found in _LINK.finditer(_CODE.sub("", line))]
    if fence is not None:
        raise ValueError(f"{path}:{start}: the block is never closed")
    return Page(path=path, blocks=tuple(blocks), links=tuple(links), anchors=frozenset(anchors))


def anchor(heading: str) -> str:
    """Spell a heading as the fragment that links to it."""
    kept = re.sub(r"[^\w\s-]", "", heading.strip().lower())
    return re.sub(r"\s", "-", kept)
