"""The lexer that both languages share.

Tokens live in parallel lists: a schema of a thousand types has tens of thousands of them, and a
list of small objects would cost more than the parse. Comments are kept aside, by offset, so that
the formatter can put them back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from omnigraph.lang.source import SOURCE_CHARS_MAX, Diagnostics, Source, Span

IDENT = "ident"  # lower-case initial: properties, edges in queries, keywords
TYPE = "type"  # upper-case initial
VAR = "var"  # with its `$`
INT = "int"
FLOAT = "float"
STRING = "string"  # with its quotes
BAD = "bad"
EOF = "eof"

# Possessive quantifiers keep the scan linear on any text. An unterminated string runs to the end
# of its line and an unterminated comment to the end of the text, so one slip gives one report.
_TOKEN = re.compile(
    r"""[\ \t\r\n\ufeff]*+(?:
      (?P<ident>[a-z_]\w*+)
    | (?P<type>[A-Z]\w*+)
    | (?P<var>\$[a-z_]\w*+)
    | (?P<comment>//[^\r\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)
    | (?P<opencomment>/\*.*+)
    | (?P<punct>->|\.\.|>=|<=|!=|[{}()\[\]:,?@=<>.*-])
    | (?P<float>[0-9]++(?:\.[0-9]++(?:[eE][+-]?[0-9]++)?|[eE][+-]?[0-9]++))
    | (?P<int>[0-9]++)
    | (?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")
    | (?P<openstring>"[^\r\n]*+)
    | (?P<bad>\\.|.)
    )""",
    re.VERBOSE | re.DOTALL,
)

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_QUOTE = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment with its markers, as written."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one source: `kinds[i]`, `texts[i]`, `starts[i]`; the last one is EOF.

    The kind of a punctuation token is its own text, so a parser tests one list only.
    """

    kinds: list[str]
    texts: list[str]
    starts: list[int]
    comments: tuple[Comment, ...]

    def span(self, index: int) -> Span:
        """The span of one token."""
        start = self.starts[index]
        return Span(start, start + len(self.texts[index]))


def lex(source: Source, found: Diagnostics, syntax_code: str) -> Tokens:
    """Cut a source into tokens; characters that fit nowhere are reported and left out."""
    text = source.text
    kinds: list[str] = []
    texts: list[str] = []
    starts: list[int] = []
    comments: list[Comment] = []
    if len(text) > SOURCE_CHARS_MAX:
        limit = f"the source has {len(text)} characters, the limit is {SOURCE_CHARS_MAX}"
        found.error(syntax_code, limit, Span(0, 0))
        text = ""
    _check_unicode(text, found, syntax_code)
    # White space at the very end belongs to no token; searching it would cost its length squared.
    for match in _TOKEN.finditer(text, 0, len(text.rstrip(" \t\r\n\ufeff"))):
        kind = match.lastgroup or BAD
        word = match[kind]
        start = match.start(kind)
        if kind == "punct":
            kind = word
        elif kind == "comment":
            text_of = word.replace("\r\n", "\n").replace("\r", "\n").rstrip()
            comments.append(Comment(Span(start, start + len(word)), text_of))
            continue
        elif kind in _BROKEN:
            kind = _report_broken(kind, word, start, found, syntax_code)
            if kind == BAD:
                continue
        elif not word.isascii() and kind != STRING:
            at = Span(start, start + len(word))
            found.error(syntax_code, f"`{word}` has letters that names cannot have", at, _ASCII)
        kinds.append(kind)
        texts.append(word)
        starts.append(start)
    kinds.append(EOF)
    texts.append("")
    starts.append(len(text))
    return Tokens(kinds, texts, starts, tuple(comments))


def _check_unicode(text: str, found: Diagnostics, syntax_code: str) -> None:
    """Half a surrogate pair cannot be stored or hashed, so it must not get past the lexer."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        message = "this character is not valid Unicode"
        found.error(syntax_code, message, Span(error.start, error.start + 1))


_ASCII = "names are made of the letters a to z and A to Z, digits and `_`"
_BROKEN = frozenset({"opencomment", "openstring", BAD})


def _report_broken(kind: str, word: str, start: int, found: Diagnostics, code: str) -> str:
    """Report text that is no token; answers the kind to read it as, or BAD to leave it out."""
    if kind == "opencomment":
        found.error(code, "this comment is never closed", Span(start, start + 2), "add `*/`")
        return BAD
    if kind == "openstring":
        found.error(code, "this string is never closed", Span(start, start + 1), 'add `"`')
        return STRING
    hint = None
    if word in _LOOKALIKES:
        hint = _LOOKALIKES[word]
    elif word == "$":
        hint = "a variable starts with a lower-case letter or `_`: `$name`"
    found.error(code, f"unexpected character {word!r}", Span(start, start + len(word)), hint)
    return BAD


_LOOKALIKES = {
    "'": 'strings are written with double quotes: `"text"`',
    "\u201c": 'use plain double quotes: `"`',
    "\u201d": 'use plain double quotes: `"`',
    ";": "no separator is needed between statements",
    "#": "comments start with `//`",
    "&": "write `and`",
    "|": "write `or`",
    "!": "write `not` or `!=`",
}


def unquote(word: str, start: int, found: Diagnostics, syntax_code: str) -> str:
    """The value of a string token; an escape outside the known five is reported."""
    body = word[1:-1] if len(word) > 1 and word.endswith('"') else word[1:]
    if "\\" not in body:
        return body

    def unescape(match: re.Match[str]) -> str:
        known = _ESCAPES.get(match[1])
        if known is None:
            at = Span(start + 1 + match.start(), start + 1 + match.end())
            known_list = 'the escapes are `\\"`, `\\\\`, `\\n`, `\\r`, `\\t`'
            found.error(syntax_code, f"unsupported escape sequence {match[0]!r}", at, known_list)
            return match[0]
        return known

    return _ESCAPE.sub(unescape, body)


def quote(value: str) -> str:
    """A string as a token that `unquote` reads back."""
    return f'"{value.translate(_QUOTE)}"'
