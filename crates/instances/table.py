"""Writes src/table.csv, the hardware and the on-demand prices of AWS's instance types.

    python3 crates/instances/table.py            # writes the file
    python3 crates/instances/table.py --check    # fails if the file is not up to date

The hardware is AWS's answer to DescribeInstanceTypes, which the Python package moto carries. An older
version of moto adds types that AWS no longer sells to everyone, but that still run. The prices are
those of AWS's price list, which the Go module of Karpenter's AWS provider carries. Both packages are
Apache-2.0. The script takes their facts and none of their code. It needs pip and Go.
"""

import gzip
import io
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "src" / "table.csv"
MOTO = "5.2.5"
MOTO_DATE = "October 2026"
OLDER_MOTO = "5.0.5"
KARPENTER = "github.com/aws/karpenter-provider-aws"
KARPENTER_VERSION = "v1.15.2"
REGIONS = ("us-east-1", "us-gov-east-1", "us-gov-west-1")
"""The regions whose prices the module has in dollars. It has those of China in yuan."""

COLUMNS = (
    "name",
    "architecture",
    "cpu_maker",
    "vcpus",
    "memory_mib",
    "accelerator_maker",
    "accelerator",
    "accelerators",
    "accelerator_mib",
    "is_fraction",
    "interfaces",
    "addresses",
    "efa",
    "disk_gb",
    "network_mbps",
    "hypervisor",
    *REGIONS,
)
ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}

Info = dict[str, Any]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = table(Path(folder))
    if "--check" not in sys.argv[1:]:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        sys.exit(f"{FILE} is not up to date: run python3 crates/instances/table.py")


def table(folder: Path) -> str:
    """Returns the text of the file."""
    types = instance_types(folder, OLDER_MOTO) | instance_types(folder, MOTO)
    prices, date = prices_by_region(folder)
    rows = []
    for name, info in sorted(types.items()):
        facts = row(info)
        if facts is not None:
            of_regions = (prices[region].get(name, "") for region in REGIONS)
            rows.append(",".join([name, *facts, *of_regions]))
    header = (
        f"# {len(rows)} instance types of AWS. Written by table.py: do not edit.\n"
        f"# Hardware: DescribeInstanceTypes of {MOTO_DATE}, from the Python package moto {MOTO}"
        f" (and {OLDER_MOTO} for types that it lacks), Apache-2.0.\n"
        f"# Prices: dollars an hour on demand for Linux, from {KARPENTER} {KARPENTER_VERSION}, Apache-2.0.\n"
        f"# Date of the prices: {date}\n"
    )
    return header + "\n".join([",".join(COLUMNS), *rows]) + "\n"


def instance_types(folder: Path, version: str) -> dict[str, Info]:
    """Returns the answers to DescribeInstanceTypes in a version of moto, by name."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), f"moto=={version}"]
    subprocess.run(command, check=True)
    [file] = folder.glob(f"moto-{version}-*.whl")
    wheel = zipfile.ZipFile(file)
    [member] = [name for name in wheel.namelist() if re.search(r"/ec2/resources/instance_types\.json(\.gz)?$", name)]
    content = wheel.read(member)
    found: dict[str, Info] = json.loads(gzip.decompress(content) if member.endswith(".gz") else content)
    return found


def prices_by_region(folder: Path) -> tuple[dict[str, dict[str, str]], str]:
    """Returns the prices by region and name as they are written, and the date of the oldest."""
    (folder / "go.mod").write_text("module table\n")
    # Go reports an error after the download if the module needs a later version of Go.
    command = ["go", "mod", "download", "-json", f"{KARPENTER}@{KARPENTER_VERSION}"]
    answer = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
    archive = json.loads(answer.stdout).get("Zip")
    if archive is None:
        sys.exit(f"go mod download: {answer.stdout}{answer.stderr}")
    module = zipfile.ZipFile(archive)
    prices: dict[str, dict[str, str]] = {}
    dates: list[str] = []
    for file in ("aws", "aws_us_gov"):
        text = io.TextIOWrapper(
            module.open(f"{KARPENTER}@{KARPENTER_VERSION}/pkg/providers/pricing/zz_generated.pricing_{file}.go")
        ).read()
        dates += re.findall(r"// generated at (\S+)", text)
        parts = re.split(r'^\t"([a-z0-9-]+)": \{$', text, flags=re.MULTILINE)
        for region, body in zip(parts[1::2], parts[2::2], strict=True):
            prices[region] = dict(re.findall(r'"([a-z0-9.-]+\.[a-z0-9.-]+)": ([0-9]+\.[0-9]+)', body))
    return prices, min(dates)[:10]


def row(info: Info) -> list[str] | None:
    """Returns the columns of a type from its architecture to its hypervisor, or None for macOS."""
    processor = info["ProcessorInfo"]
    architecture = next((ARCHITECTURES[name] for name in processor["SupportedArchitectures"] if name in ARCHITECTURES), None)
    if architecture is None:
        return None
    network = info["NetworkInfo"]
    cards = network["NetworkCards"]
    card = cards[network.get("DefaultNetworkCardIndex", 0)]
    bandwidths = [card.get("BaselineBandwidthInGbps", 0) for card in cards]
    maker, accelerator, count, mib, is_fraction = accelerators(info)
    return [
        architecture,
        kebab(processor.get("Manufacturer", "")),
        str(info["VCpuInfo"]["DefaultVCpus"]),
        str(info["MemoryInfo"]["SizeInMiB"]),
        maker,
        accelerator,
        str(count),
        str(mib),
        str(int(is_fraction)),
        str(card["MaximumNetworkInterfaces"]),
        str(network["Ipv4AddressesPerInterface"]),
        str(network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)),
        str(info.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)),
        str(round(1000 * sum(bandwidths))),
        info.get("Hypervisor", ""),
    ]


def accelerators(info: Info) -> tuple[str, str, int, int, bool]:
    """Returns maker, name, number, memory in MiB of one, and whether one is a fraction of a device."""
    if devices := info.get("NeuronInfo", {}).get("NeuronDevices"):
        count = sum(device["Count"] for device in devices)
        return "aws", kebab(devices[0]["Name"]), count, devices[0]["MemoryInfo"]["SizeInMiB"], False
    if gpus := info.get("GpuInfo", {}).get("Gpus"):
        # A type with a fraction of a GPU has a count of 0 and a logical count of 1.
        count = sum(max(gpu["Count"], gpu.get("LogicalGpuCount", 0)) for gpu in gpus)
        is_fraction = any(gpu["Count"] == 0 for gpu in gpus)
        return kebab(gpus[0]["Manufacturer"]), kebab(gpus[0]["Name"]), count, gpus[0]["MemoryInfo"]["SizeInMiB"], is_fraction
    if devices := info.get("InferenceAcceleratorInfo", {}).get("Accelerators"):
        count = sum(device["Count"] for device in devices)
        memory = devices[0].get("MemoryInfo", {}).get("SizeInMiB", 0)
        return kebab(devices[0]["Manufacturer"]), kebab(devices[0]["Name"]), count, memory, False
    return "", "", 0, 0, False


def kebab(name: str) -> str:
    """Returns a name in the form of Karpenter's labels: Radeon Pro V520 as radeon-pro-v520."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


if __name__ == "__main__":
    main()
