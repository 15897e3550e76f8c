"""Comparing the pod templates of workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HASH = "pod-template-hash"
"""The label by which a Deployment tells the pods of its ReplicaSets apart."""


def same_template(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two pod templates are equal without the label ``HASH``.

    >>> same_template({"metadata": {"labels": {HASH: "x"}}}, {"spec": {}})
    True
    """
    return bool(comparable_template(one) == comparable_template(other))


def comparable_template(template: Mapping[str, Any]) -> Any:
    """Return a template without the label ``HASH``, null values and empty maps and lists."""
    meta = dict(template.get("metadata") or {})
    meta["labels"] = {k: v for k, v in (meta.get("labels") or {}).items() if k != HASH}
    return _without_empty({**template, "metadata": meta})


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {k: _without_empty(v) for k, v in value.items()}
        return {k: v for k, v in kept.items() if v is not None and v not in ({}, [])}
    return [_without_empty(v) for v in value] if isinstance(value, list) else value
