"""Writes charts/prophet/README.md from the comments of values.yaml.

    python3 charts/readme.py            # writes the page
    python3 charts/readme.py --check    # fails if the page is not up to date

A comment above a key documents it. Every key needs one, and so does every key of the schema. A value
is on the line of its key, or is a map whose keys follow on lines of their own.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHART = Path(__file__).parent / "prophet"
KEY = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z0-9]+):(?: (?P<value>.+))?$")

INTRODUCTION = """\
# The Helm chart of Prophet

    helm install prophet charts/prophet --namespace prophet --create-namespace \\
      --values values.yaml --wait

[Installing Prophet](../../docs/installing.md) describes an installation on EKS beside
cluster-autoscaler, and [From Observe to Act](../../docs/observe-to-act.md) the next steps. [The
runbook](../../docs/runbooks.md) describes the alerts.

The chart needs Kubernetes 1.31. The tests install it with Helm 4 on Kubernetes 1.37, and compare
its manifests with the types of each version since 1.31. Image volumes, as in `extraVolumes`, need
Kubernetes 1.35.

Without prices of your own and without those of AWS, instances cost AWS's list prices of July 2026,
which are part of the program ([prices](../../docs/prices.md)).

`charts/readme.py` generates this page from `values.yaml`.

## Values

A value that the table does not list is refused.
"""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One key of the values, with the keys of its parents."""

    path: tuple[str, ...]
    text: str
    value: str | None

    @property
    def name(self) -> str:
        return ".".join(self.path)


def entries(text: str) -> list[Entry]:
    """The keys of the values, in their order."""
    found: list[Entry] = []
    comment: list[str] = []
    path: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("#"):
            comment.append(line.lstrip("# ").rstrip())
            continue
        if not line:
            if comment:
                raise SystemExit(f"values.yaml:{number}: a comment without a key")
            continue
        key = KEY.match(line)
        if key is None or not comment:
            raise SystemExit(f"values.yaml:{number}: expected a key with a comment above it: {line}")
        path = [*path[: len(key["indent"]) // 2], key["key"]]
        found.append(Entry(path=tuple(path), text=" ".join(comment), value=key["value"]))
        comment = []
    return found


def page(text: str) -> str:
    """The page: a table of all keys that have a value, below the text of their map."""
    rows = ["| value | default | meaning |", "| --- | --- | --- |"]
    for entry in entries(text):
        if entry.value is None:
            rows.append(f"| **`{entry.name}`** | | {cell(entry.text)} |")
        else:
            rows.append(f"| `{entry.name}` | `{cell(entry.value)}` | {cell(entry.text)} |")
    return INTRODUCTION + "\n" + "\n".join(rows) + "\n"


def cell(text: str) -> str:
    """A text that may stand in a cell of a table."""
    return text.replace("|", "\\|")


def undocumented(schema: Any, node: Any, prefix: tuple[str, ...], known: dict[tuple[str, ...], Entry]) -> Iterator[str]:
    """The keys of the schema that values.yaml does not list, below a map that it lists."""
    while "$ref" in node:
        node = schema["definitions"][node["$ref"].rsplit("/", maxsplit=1)[-1]]
    for key, below in node.get("properties", {}).items():
        path = (*prefix, key)
        if path == ("global",):  # Helm adds it.
            continue
        if path not in known:
            yield ".".join(path)
        elif known[path].value is None:
            yield from undocumented(schema, below, path, known)


def main() -> None:
    written = CHART / "README.md"
    values = (CHART / "values.yaml").read_text(encoding="utf-8")
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    known = {entry.path: entry for entry in entries(values)}
    if missing := list(undocumented(schema, schema, (), known)):
        raise SystemExit(f"values.yaml lacks what values.schema.json has: {', '.join(missing)}")
    fresh = page(values)
    if sys.argv[1:] != ["--check"]:
        written.write_text(fresh, encoding="utf-8")
    elif not written.exists() or written.read_text(encoding="utf-8") != fresh:
        raise SystemExit("charts/prophet/README.md is not up to date: run make chart-readme")


if __name__ == "__main__":
    main()
