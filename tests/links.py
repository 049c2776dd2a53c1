"""Checks the links of the documentation, without a network:

    python3 tests/links.py BOOK

BOOK is the folder of HTML pages that mdBook wrote. Each of its links within the book must lead to a
file, and to an element with the id of its fragment. Each link of a Markdown file in the repository
must lead to a file of the repository, and to a heading. Links to other sites are not followed.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

REPOSITORY = Path(__file__).parent.parent
HERE = "https://github.com/prophet/prophet/"
"""The address of the repository, for links from the book to files that are not pages of it."""
LEFT_OUT = {"print.html", "toc.html", "404.html"}
"""Pages that mdBook makes of others. Their links are those of the others, or relative to the site."""
FRAGMENT = Path("evaluation/prose.md")
"""The first part of docs/evaluation.md, whose links are relative to docs/."""
IGNORED = {"target", "node_modules", "out", "shared"}
"""Folders that are no part of the repository."""


class Page(HTMLParser):
    """The ids and the links of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if name in ("href", "src") and value:
                self.links.add(value)


@cache
def html(file: Path) -> Page:
    return Page(file.read_text(encoding="utf-8"))


@cache
def prose(file: Path) -> str:
    """The text of a Markdown file without its code."""
    text = re.sub(r"^( *)(```|~~~).*?^\1\2`*$", "", file.read_text(encoding="utf-8"), flags=re.M | re.S)
    text = re.sub(r"(^|\n\n)(( {4}.*)?\n)+", "\n\n", text)
    return re.sub(r"`[^`\n]*`", lambda code: "`" + "x" * (len(code[0]) - 2) + "`", text)


@cache
def anchors(file: Path) -> set[str]:
    """The anchors that GitHub and mdBook give the headings of a Markdown file."""
    seen: Counter[str] = Counter()
    found = set()
    fenced = False
    for line in file.read_text(encoding="utf-8").splitlines():
        fenced ^= line.lstrip().startswith("```")
        heading = re.match(r"#{1,6} +(.*)", line)
        if fenced or heading is None:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
        slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def of_the_book(book: Path) -> Iterator[str]:
    pages = [page for page in sorted(book.rglob("*.html")) if page.name not in LEFT_OUT]
    if not pages:
        yield f"{book}: no pages"
    for page in pages:
        for link in sorted(html(page).links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if target.is_dir():
                target /= "index.html"
            name = f"{page.relative_to(book)}: {link}"
            if not target.is_relative_to(book):
                yield f"{name}: leads out of the book. Link {HERE}blob/main/PATH instead"
            elif not target.is_file():
                yield f"{name}: no such file. Is the page in docs/SUMMARY.md?"
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in html(target).ids:
                yield f"{name}: no such heading"


def of_the_repository() -> Iterator[str]:
    for file in sorted(REPOSITORY.rglob("*.md")):
        folders = file.relative_to(REPOSITORY).parts[:-1]
        if file.relative_to(REPOSITORY) == FRAGMENT or any(part in IGNORED or part.startswith(".") for part in folders):
            continue
        for link in re.findall(r"\]\(<?([^)>\s]+)", prose(file)):
            inside = re.sub(f"^{HERE}(blob|tree)/main/", "/", link)
            parts = urlsplit(inside)
            if parts.scheme or parts.netloc or parts.path.startswith("../../security/"):
                continue
            root = REPOSITORY if inside.startswith("/") else file.parent
            target = (root / unquote(parts.path).lstrip("/")).resolve() if parts.path else file
            name = f"{file.relative_to(REPOSITORY)}: {link}"
            if not target.exists():
                yield f"{name}: no such file"
            elif parts.fragment and target.suffix == ".md" and unquote(parts.fragment) not in anchors(target):
                yield f"{name}: no such heading"


def main() -> None:
    book = Path(sys.argv[1]).resolve()
    if broken := [*of_the_book(book), *of_the_repository()]:
        raise SystemExit("broken links:\n  " + "\n  ".join(broken))


if __name__ == "__main__":
    main()
