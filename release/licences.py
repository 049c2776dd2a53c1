"""Writes the licences of everything that the binary contains, with their texts:

    python3 release/licences.py prophet-licences.txt

A crate without a licence file gets the standard text of a licence that its metadata name. The
licences of Rust's standard library are in a page of the toolchain, which is copied to
`rust-library.html` beside the file.
"""

import argparse
import re
import shutil
from pathlib import Path

import components
from components import ROOT, Package

FILE = re.compile(r"(?i)^(licen[sc]e|copying|copyright|notice|unlicense)([-_.].*)?$")
"""The names of licence files, such as LICENSE, LICENSE-MIT, COPYING.txt and NOTICE."""
CODE = {".rs", ".c", ".h", ".py", ".go", ".json", ".toml"}
"""Endings of files that are code, such as license.rs."""
RULE = "=" * 100

MIT = """\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense,
and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so,
subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN
NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY,
WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE
SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def texts(package: Package) -> list[str]:
    """The licence texts of a crate, of the code of others in its folders too."""
    files = sorted(file for file in package.folder.rglob("*") if FILE.match(file.name) and is_text(file))
    found = [file.read_text(encoding="utf-8", errors="replace").strip() for file in files]
    return [text for text in found if text] or [standard(package)]


def is_text(file: Path) -> bool:
    return file.is_file() and file.suffix.lower() not in CODE


def standard(package: Package) -> str:
    """The text of a licence that the metadata of a crate name."""
    named = set(re.split(r"[ ()]+", package.licence))
    if "Apache-2.0" in named:
        return (ROOT / "LICENSE").read_text(encoding="utf-8").strip()
    if "MIT" in named:
        return f"MIT License\n\nCopyright (c) the authors of {package.name} ({package.repository})\n\n{MIT}".strip()
    raise SystemExit(
        f"{package.key} ({package.licence}) has no licence file in {package.folder}: "
        "add the text of its licence to release/licences.py"
    )


def report(packages: list[Package]) -> str:
    """A list of the crates, then each text once, with the crates that it belongs to."""
    owners: dict[str, list[Package]] = {}
    for package in packages:
        for text in dict.fromkeys(texts(package)):
            owners.setdefault(text, []).append(package)
    number = {text: at for at, text in enumerate(owners, start=1)}
    lines = [
        "Licences of the packages that the program `prophet` contains.",
        "",
        "The numbers are those of the texts below. The standard library of Rust and what it contains of",
        "others have the licences of the page rust-library.html. The example log is a part of",
        "philly-traces by Microsoft (https://github.com/msr-fiddle/philly-traces), under CC BY 4.0",
        "(https://creativecommons.org/licenses/by/4.0/); crates/traces/data/README.md lists what was changed.",
        "",
    ]
    for package in packages:
        numbers = ", ".join(str(number[text]) for text in owners if package in owners[text])
        lines.append(f"{package.name} {package.version}: {package.licence} [{numbers}]")
    for text, of in owners.items():
        names = ", ".join(package.key for package in of)
        lines += ["", RULE, f"{number[text]}. {names}", RULE, "", *(line.rstrip() for line in text.splitlines())]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the file to write")
    parser.add_argument("--target", help="the target triple (default: this machine's)")
    parser.add_argument("--features", default="full", help="the features of the binary (default: %(default)s)")
    arguments = parser.parse_args()
    build = components.read(arguments.target or components.host(), arguments.features)
    linked = [one for one in build.packages if one.linked and one.sha256]
    arguments.out.write_text(report([build.root, *linked]), encoding="utf-8")
    shutil.copyfile(components.rust_licences(), arguments.out.parent / "rust-library.html")


if __name__ == "__main__":
    main()
