"""Writes the software bill of materials of the binary, in CycloneDX 1.6:

    python3 release/sbom.py prophet.cdx.json --binary target/release/prophet

It lists the crates that the binary contains, those that only build it (scope `excluded`), Rust's
standard library, and the model and the job log that are compiled in. The time is that of
SOURCE_DATE_EPOCH.
"""

import argparse
import hashlib
import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import components
from components import ROOT, Build, Package

EMBEDDED = (
    ("machine-learning-model", "models/pretrained/quantile.onnx", "Apache-2.0", "The shipped model: models/pretrained/README.md"),
    ("data", "crates/traces/data/philly-2017-10.csv.gz", "CC-BY-4.0", "The example log: crates/traces/data/README.md"),
)
"""The files that are compiled into the binary: type, path, licence, description."""


def purl(package: Package) -> str:
    """The package URL of a crate."""
    kind = "cargo" if package.sha256 else "generic"
    return f"pkg:{kind}/{package.name}@{quote(package.version, safe='')}"


def component(package: Package) -> dict[str, Any]:
    """One crate."""
    listed: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package.name,
        "version": package.version,
        "description": package.description,
        "scope": "required" if package.linked else "excluded",
        "licenses": [{"expression": package.licence}],
        "purl": purl(package),
    }
    if package.sha256:
        listed["hashes"] = [{"alg": "SHA-256", "content": package.sha256}]
    if package.repository:
        listed["externalReferences"] = [{"type": "vcs", "url": package.repository}]
    return listed


def embedded() -> list[dict[str, Any]]:
    """The files that are compiled in, and Rust's standard library."""
    version = components.rust_version()
    library = {
        "type": "library",
        "bom-ref": f"pkg:generic/rust-std@{version}",
        "name": "rust-std",
        "version": version,
        "description": "The standard library of Rust, with what it contains of others",
        "scope": "required",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "purl": f"pkg:generic/rust-std@{version}",
    }
    files = [
        {
            "type": kind,
            "bom-ref": f"file:{path}",
            "name": path,
            "description": description,
            "scope": "required",
            "hashes": [{"alg": "SHA-256", "content": sha256(ROOT / path)}],
            "licenses": [{"license": {"id": licence}}],
        }
        for kind, path, licence, description in EMBEDDED
    ]
    return [library, *files]


def sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def bill(build: Build, binary: Path | None, target: str) -> dict[str, Any]:
    """The whole document. Its serial number is a digest of the rest."""
    others = embedded()
    root = component(build.root) | {"type": "application"}
    root["properties"] = [{"name": "prophet:target", "value": target}]
    if binary:
        root["hashes"] = [{"alg": "SHA-256", "content": sha256(binary)}]
    references = {one.key: purl(one) for one in (build.root, *build.packages)}
    needs = {references[key]: [references[one] for one in of] for key, of in build.needs.items()}
    needs[purl(build.root)] += [one["bom-ref"] for one in others]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(components.commit_time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tools": {"components": [{"type": "application", "name": "release/sbom.py", "version": build.root.version}]},
            "component": root,
        },
        "components": [*(component(one) for one in build.packages), *others],
        "dependencies": [{"ref": ref, "dependsOn": on} for ref, on in sorted(needs.items())],
    }
    digest = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return {**document, "serialNumber": f"urn:uuid:{digest}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the file to write")
    parser.add_argument("--binary", type=Path, help="the binary, whose digest is added")
    parser.add_argument("--target", help="the target triple (default: this machine's)")
    parser.add_argument("--features", default="full", help="the features of the binary (default: %(default)s)")
    arguments = parser.parse_args()
    target = arguments.target or components.host()
    document = bill(components.read(target, arguments.features), arguments.binary, target)
    arguments.out.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
