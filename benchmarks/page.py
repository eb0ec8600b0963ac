"""Where figures go: the table between two marks of a page, with what it was measured on."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
from collections.abc import Iterable
from pathlib import Path

import torch
from figure import MARKDOWN_HEAD, Figure, markdown_line

__all__ = ["existing", "machine", "write"]

SHOWN = ("torch", "lt", "numpy", "tensorboard", "tqdm")
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def existing(text: str) -> Path:
    """Return the page of ``--write``, or tell argparse that it is not there, before anything is measured."""
    page = Path(text)
    if not page.is_file():
        raise argparse.ArgumentTypeError(
            f"there is no page {text!r} to put the table into, such as docs/performance.md"
        )
    return page


def machine() -> str:
    """Return what this was measured on, without names or paths: GPU, processor, cores, load, versions."""
    versions = ", ".join(f"{name} {found}" for name in SHOWN if (found := _version(name)))
    processor = _model() or platform.processor() or platform.machine()
    gpu = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, " if torch.cuda.is_available() else ""
    cores = os.cpu_count()
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"{platform.system()}, {gpu}{processor}, {cores} cores, load average {load} at the end; "
        f"Python {platform.python_version()}, {versions}."
    )


def write(figures: list[Figure], target: Path, letters: Iterable[str]) -> None:
    """Put the lines into the table of a page; rows of ``letters`` that were not measured this time stay."""
    before, _, rest = target.read_text("utf-8").partition(BEGIN)
    old, _, after = rest.partition(END)
    measured = {figure.row[0] for figure in figures}
    kept = [line for line in old.splitlines() if line.startswith("| ") and line[2] in set(letters) - measured]
    lines = sorted([*kept, *map(markdown_line, figures)], key=lambda line: line[2])
    page = "\n".join([*MARKDOWN_HEAD, *lines])
    target.write_text(f"{before}{BEGIN}\n\n{machine()}\n\n{page}\n\n{END}{after}", encoding="utf-8")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
