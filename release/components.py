"""The packages of the binary, as Cargo resolves them for one target and one list of features.

`cargo metadata` alone lists too much: it also has packages of features that nothing enables. So
`cargo tree` selects the packages, and `cargo metadata` describes them.
"""

import json
import os
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LINE = re.compile(r"^(?P<depth>\d+)\|(?P<name>\S+) v(?P<version>\S+)(?P<macro> \(proc-macro\))?")


@dataclass(frozen=True, kw_only=True, order=True)
class Package:
    """One package of the build, of this workspace or of crates.io."""

    name: str
    version: str
    licence: str
    """An SPDX expression."""
    folder: Path
    description: str
    repository: str
    sha256: str
    """Of the package file on crates.io. Empty for a package of this workspace."""
    linked: bool
    """Whether the binary contains its code. Otherwise it is used only to build the binary."""

    @property
    def key(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True, kw_only=True)
class Build:
    """The packages of the binary, in the order of their names, and what each depends on."""

    root: Package
    packages: tuple[Package, ...]
    """All packages but the root."""
    needs: dict[str, list[str]]
    """By the key of a package, the sorted keys of the packages that it depends on."""


def cargo(*arguments: str) -> str:
    """The standard output of Cargo, or the end of the program with Cargo's message."""
    done = subprocess.run(["cargo", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"cargo {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout


def host() -> str:
    """The target triple of this machine."""
    shown = subprocess.run(["rustc", "-vV"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return next(line.removeprefix("host: ") for line in shown.splitlines() if line.startswith("host: "))


def read(target: str, features: str) -> Build:
    """The packages of `prophet` with these features on this target."""
    chosen = ("--locked", "--package=prophet", f"--features={features}", f"--target={target}")
    shown = ("--prefix=depth", "--format=|{p}")
    edges = tree(cargo("tree", *chosen, *shown, "--edges=normal,build"))
    linked = set(tree(cargo("tree", *chosen, *shown, "--edges=normal,no-proc-macro")))
    described = {f"{one['name']} {one['version']}": one for one in metadata(target)["packages"]}
    sums = checksums()
    packages = {key: package(described[key], sums.get(key, ""), key in linked) for key in edges}
    root = next(one for one in packages.values() if one.name == "prophet")
    others = tuple(sorted(one for one in packages.values() if one != root))
    return Build(root=root, packages=others, needs={key: sorted(of) for key, of in edges.items()})


def metadata(target: str) -> Any:
    """What Cargo describes of all packages."""
    return json.loads(cargo("metadata", "--locked", "--format-version=1", "--all-features", f"--filter-platform={target}"))


def tree(text: str) -> dict[str, set[str]]:
    """What each package depends on. A package that occurs again is listed without what it needs."""
    needs: dict[str, set[str]] = {}
    path: list[str] = []
    for line in text.splitlines():
        found = LINE.match(line)
        if found is None:
            raise SystemExit(f"cargo tree printed a line that is no package: {line}")
        key = f"{found['name']} {found['version']}"
        path = [*path[: int(found["depth"])], key]
        needs.setdefault(key, set())
        if len(path) > 1:
            needs[path[-2]].add(key)
    return needs


def package(described: Any, sha256: str, linked: bool) -> Package:
    """One package, from Cargo's description of it."""
    name, version = described["name"], described["version"]
    if not described["license"]:
        raise SystemExit(f"{name} {version} has no licence expression, and release/components.py knows none for it")
    return Package(
        name=name,
        version=version,
        # Before 2018, a slash stood for `OR`.
        licence=re.sub(r" ?/ ?", " OR ", described["license"]),
        folder=Path(described["manifest_path"]).parent,
        description=(described["description"] or "").strip(),
        repository=described["repository"] or "",
        sha256=sha256,
        linked=linked,
    )


def checksums() -> dict[str, str]:
    """The SHA-256 of the package files, from Cargo.lock."""
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    return {f"{one['name']} {one['version']}": one["checksum"] for one in locked["package"] if "checksum" in one}


def rust_version() -> str:
    """The version of Rust, and so of its standard library, that the project pins."""
    pinned = tomllib.loads((ROOT / "rust-toolchain.toml").read_text(encoding="utf-8"))
    return str(pinned["toolchain"]["channel"])


def rust_licences() -> Path:
    """The licences of Rust's standard library, which the binary contains, as the toolchain has them."""
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], cwd=ROOT, capture_output=True, text=True, check=True)
    page = Path(sysroot.stdout.strip()) / "share/doc/rust/COPYRIGHT-library.html"
    if not page.is_file():
        raise SystemExit(f"the toolchain lacks {page}: install it with rustup")
    return page


def commit_time() -> int:
    """SOURCE_DATE_EPOCH, or 1980-01-01, so that two runs write the same files."""
    return int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
