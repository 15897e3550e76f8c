"""The value of ``--node-shape``: the resources of every registered node."""

from __future__ import annotations

import typer

from holdfast.api.names import label_key
from holdfast.api.quantity import MAX_INT64, MILLI, Quantity
from holdfast.runtime.errors import BadRequest
from holdfast.runtime.settings import THREADS_PER_CORE, NodeShape

_MOST = {"numa": 8, "koordinator-gpus": 64}
"""The limits of published parts; a kubelet refuses more NUMA nodes as well."""
MOST_CPUS = 1024
"""The most CPUs of a NodeResourceTopology: its annotation has a limited size."""


def parse_node_shape(text: str) -> NodeShape:
    """Parse resources with their amounts, and ``numa`` and ``koordinator-gpus``.

    >>> str(parse_node_shape("cpu=16,memory=64Gi,nvidia.com/gpu=8,numa=2"))
    'cpu=16,memory=64Gi,pods=110,ephemeral-storage=500Gi,nvidia.com/gpu=8,numa=2'
    """
    amounts: dict[str, str] = {}
    counts: dict[str, int] = {}
    for part in text.split(","):
        name, equals, amount = part.partition("=")
        if not (name and equals and amount):
            raise typer.BadParameter(f"{part or text!r} is not NAME=AMOUNT, such as cpu=16.")
        if name in amounts or name in counts:
            raise typer.BadParameter(f"{name} is given twice.")
        if name in _MOST:
            counts[name] = _count(name, amount)
        else:
            _check_name(name)
            amounts[name] = _amount(name, amount)
    amounts = NodeShape().capacity | amounts
    shape = NodeShape(
        cpu=amounts.pop("cpu"),
        memory=amounts.pop("memory"),
        pods=amounts.pop("pods"),
        ephemeral_storage=amounts.pop("ephemeral-storage"),
        extra=amounts,
        numa=counts.get("numa", 0),
        koordinator_gpus=counts.get("koordinator-gpus", 0),
    )
    _check_numa(shape)
    return shape


def _count(name: str, text: str) -> int:
    count = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if not 1 <= count <= _MOST[name]:
        raise typer.BadParameter(f"{name}={text}: must be from 1 to {_MOST[name]}.")
    return count


def _check_name(name: str) -> None:
    known = NodeShape().capacity
    if "/" not in name and name not in known and not name.startswith("hugepages-"):
        words = ", ".join((*known, "hugepages-SIZE", *_MOST))
        raise typer.BadParameter(
            f"{name!r} is unknown: use {words}, or the name of a resource with its domain, such as "
            "nvidia.com/gpu."
        )
    for problem in label_key(name):
        raise typer.BadParameter(f"{name!r} is not the name of a resource: {problem}.")


def _amount(name: str, text: str) -> str:
    try:
        amount = Quantity.parse(text)
    except BadRequest as error:
        raise typer.BadParameter(f"{name}={text}: {error.message}.") from error
    if amount.digits < 0:
        raise typer.BadParameter(f"{name}={text}: must not be negative.")
    if amount.scaled(MILLI) > MAX_INT64:
        raise typer.BadParameter(f"{name}={text}: is too large.")
    if name != "cpu" and not amount.round_up(0)[1]:
        raise typer.BadParameter(f"{name}={text}: must be a whole number.")
    return text


def _check_numa(shape: NodeShape) -> None:
    """Check that every NUMA node gets whole cores."""
    if not shape.numa:
        return
    cpus, step = Quantity.parse(shape.cpu), shape.numa * THREADS_PER_CORE
    if not cpus.round_up(0)[1] or not cpus.value() or cpus.value() % step:
        raise typer.BadParameter(
            f"numa={shape.numa} with cpu={shape.cpu}: cpu must be a multiple of {step}, so that "
            f"every NUMA node has whole cores of {THREADS_PER_CORE} CPUs."
        )
    if cpus.value() > MOST_CPUS:
        raise typer.BadParameter(
            f"numa={shape.numa} with cpu={shape.cpu}: cpu must be at most {MOST_CPUS}."
        )
    if Quantity.parse(shape.memory).value() < shape.numa:
        raise typer.BadParameter(
            f"numa={shape.numa} with memory={shape.memory}: every NUMA node needs memory."
        )
