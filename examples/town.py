"""A made-up town for `make demo`: `python town.py FOLDER PEOPLE` writes its files.

The same number of people gives the same town. The schema is the one in examples/people.

    town.jsonl        people, companies, who knows whom and who works where
    articles.parquet  articles with vectors, and wrote.parquet their authors
    newcomers.jsonl   ten thousand lines, some of which break a rule
    spring.jsonl      every tenth person promoted, and somebody new
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FIRST = (
    "Ada",
    "Bo",
    "Cy",
    "Di",
    "Ed",
    "Flo",
    "Gus",
    "Ida",
    "Jo",
    "Kit",
    "Lou",
    "Mia",
    "Ned",
    "Ola",
)
LAST = ("Byron", "Chen", "Diaz", "Eriksen", "Fofana", "Gupta", "Haas", "Ito", "Jansen", "Kovacs")
TRADES = ("Looms", "Engines", "Mills", "Clocks", "Bridges", "Lenses", "Sails", "Bells", "Inks")
PLACES = ("North", "South", "Harbour", "Hill", "River", "Market", "Castle", "Station", "Old Town")
THINGS = ("loom", "engine", "bridge", "clock", "garden", "river", "lens", "bell", "kite", "tide")
DEEDS = ("weaves", "carries", "measures", "remembers", "turns", "draws", "answers", "follows")
OBJECTS = ("patterns", "numbers", "letters", "flowers", "shadows", "stories", "waves", "stars")
LEVELS = ("junior", "senior", "lead")
LANGUAGES = ("en", "fr", "zh", "el", "hu", "ja")


class Town:
    """So many people, and what belongs to them."""

    def __init__(self, people: int) -> None:
        """Make up a town."""
        self.people = people
        self.companies = max(9, people // 20)
        self.articles = max(50, people // 5)
        self._rng = np.random.default_rng(1815)

    @property
    def emails(self) -> list[str]:
        """The keys of the people."""
        return [f"{FIRST[n % len(FIRST)].lower()}{n}@example.org" for n in range(self.people)]

    def lines(self) -> Iterator[dict[str, Any]]:
        """People, companies and the edges between them."""
        rng, emails = self._rng, self.emails
        names = [
            f"{FIRST[n % len(FIRST)]} {last}"
            for n, last in enumerate(_picked(rng, LAST, self.people))
        ]
        levels = _picked(rng, LEVELS, self.people)
        spoken = _picked(rng, LANGUAGES, self.people)
        born = np.datetime_as_string(
            np.datetime64("1940-01-01") + rng.integers(0, 22_000, self.people)
        )
        people = zip(emails, names, born.tolist(), levels, spoken, strict=True)
        for email, name, day, level, language in people:
            data = {"email": email, "name": name, "born": day, "level": level}
            yield {"type": "Person", "data": {**data, "languages": [language]}}
        companies = [
            f"{PLACES[n % len(PLACES)]} {TRADES[n // len(PLACES) % len(TRADES)]} {n}"
            for n in range(self.companies)
        ]
        years = rng.integers(1700, 2020, self.companies).tolist()
        for company, founded in zip(companies, years, strict=True):
            yield {"type": "Company", "data": {"name": company, "founded": founded}}
        pairs = rng.integers(0, self.people, (self.people * 2, 2)).tolist()
        strengths = rng.integers(1, 100, len(pairs)).tolist()
        for (one, other), strength in zip(pairs, strengths, strict=True):
            ends = {"from": emails[one], "to": emails[other]}
            yield {"edge": "Knows", **ends, "data": {"strength": strength / 100}}
        jobs = rng.integers(0, self.companies, self.people).tolist()
        for email, job in zip(emails, jobs, strict=True):
            if job % 4:
                yield {"edge": "WorksAt", "from": email, "to": companies[job]}

    def articles_and_authors(self) -> tuple[pa.Table, pa.Table]:
        """The articles, with vectors, and who wrote them."""
        rng, count = self._rng, self.articles
        things, deeds, objects = (_picked(rng, words, count) for words in (THINGS, DEEDS, OBJECTS))
        slugs = [f"{things[n]}-{n}" for n in range(count)]
        published = 1_700_000_000_000 + rng.integers(0, 10**10, count)
        vectors = pa.array(rng.random(count * 4, dtype=np.float32))
        articles = pa.table(
            {
                "slug": slugs,
                "title": [f"On the {things[n]}, {n + 1}" for n in range(count)],
                "body": [f"The {things[n]} {deeds[n]} {objects[n]}" for n in range(count)],
                "published": pa.array(published, pa.timestamp("ms", tz="UTC")),
                "embedding": pa.FixedSizeListArray.from_arrays(vectors, 4),
            }
        )
        emails, writers = self.emails, rng.integers(0, self.people, count).tolist()
        return articles, pa.table({"from": [emails[n] for n in writers], "to": slugs})

    def newcomers(self) -> Iterator[str]:
        """Ten thousand lines, five of them wrong."""
        known = self.emails[3]
        wrong = {
            17: {"type": "Person", "data": {"email": "no address", "name": "Z", "languages": []}},
            512: {"type": "Company", "data": {"name": "Ghost Looms", "founded": 1066}},
            2048: {"type": "Company", "data": {"name": "Late Bells", "founded": 1900, "ceo": "Z"}},
            4096: {"edge": "Knows", "from": known, "to": "nobody@example.org"},
            8191: {"type": "Person", "data": {"email": known, "name": "Di", "languages": []}},
        }
        for number in range(1, 10_001):
            company = {"name": f"Newcomer {number}", "founded": 1900}
            yield json.dumps(wrong.get(number) or {"type": "Company", "data": company})

    def promotions(self) -> Iterator[dict[str, Any]]:
        """A merge: known people with the one field that changes, and somebody new."""
        for email in self.emails[: self.people // 10]:
            yield {"type": "Person", "data": {"email": email, "level": "lead"}}
        zoe = {"email": "zoe@example.org", "name": "Zoe", "languages": ["en"]}
        yield {"type": "Person", "data": zoe}


def _picked(rng: np.random.Generator, values: tuple[str, ...], count: int) -> list[str]:
    return [values[n] for n in rng.integers(0, len(values), count).tolist()]


def main() -> None:
    """Write the files."""
    folder, town = Path(sys.argv[1]), Town(int(sys.argv[2]))
    for name, lines in (
        ("town", map(json.dumps, town.lines())),
        ("newcomers", town.newcomers()),
        ("spring", map(json.dumps, town.promotions())),
    ):
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    articles, authors = town.articles_and_authors()
    pq.write_table(articles, folder / "articles.parquet")
    pq.write_table(authors, folder / "wrote.parquet")


if __name__ == "__main__":
    main()
