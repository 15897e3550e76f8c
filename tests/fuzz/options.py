"""Query parameters and delete options."""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.bodies import as_json
from fuzz.mutation import mutate
from fuzz.odd_values import (
    CONTINUES,
    COUNTS,
    FIELD_SELECTORS,
    NUMBERS,
    SELECTORS,
    TEXTS,
    VERSIONS,
)
from fuzz.values import Values


def write_query(values: Values) -> dict[str, str]:
    """Return query parameters of a write, mostly none."""
    query: dict[str, str] = {}
    if values.chance(0.08):
        query["dryRun"] = values.pick(("All", "All", "Some", "", "all"))
    if values.chance(0.15):
        query["fieldValidation"] = values.usual(("Strict", "Warn", "Ignore", "Nonsense", ""), 3)
    if values.chance(0.05):
        query["fieldManager"] = values.pick(TEXTS)
    if values.chance(0.03):
        query[values.pick(("pretty", "timeout", "force", "x"))] = values.pick(("true", "1s", "abc"))
    return query


def list_query(values: Values, continues: Sequence[str]) -> dict[str, str]:
    """Return query parameters of a list, a watch or a deletecollection."""
    query: dict[str, str] = {}
    for share, name, choices in (
        (0.3, "labelSelector", SELECTORS),
        (0.2, "fieldSelector", FIELD_SELECTORS),
        (0.3, "limit", COUNTS),
        (0.15, "continue", (*CONTINUES, *continues, *continues)),
        (0.2, "resourceVersion", VERSIONS),
        (0.15, "resourceVersionMatch", ("Exact", "NotOlderThan", "Nearly", "")),
        (0.15, "timeoutSeconds", COUNTS),
        (0.15, "allowWatchBookmarks", ("true", "false", "x")),
        (0.15, "sendInitialEvents", ("true", "false", "x")),
        (0.05, "includeObject", ("Object", "None", "Metadata", "x")),
        (0.05, "propagationPolicy", ("Orphan", "Foreground", "Sideways")),
        (0.05, "gracePeriodSeconds", COUNTS),
    ):
        if values.chance(share):
            query[name] = values.pick(choices)
    return query


def delete_options(values: Values) -> tuple[str, bytes]:
    """Return (content type, body) of a deletion."""
    if values.chance(0.4):
        return "", b""
    options = {"kind": "DeleteOptions", "apiVersion": "v1"}
    for share, name, choices in (
        (0.4, "gracePeriodSeconds", (0, 0, 1, 30, *NUMBERS)),
        (0.4, "propagationPolicy", ("Orphan", "Foreground", "Background", "Sideways", 5)),
        (0.1, "orphanDependents", (True, False, "x")),
        (0.1, "preconditions", ({"uid": "x"}, {"resourceVersion": "1"}, {}, 5, {"uid": None})),
        (0.1, "dryRun", (["All"], [], "All", ["Some"], [5])),
        (0.05, "ignoreStoreReadErrorWithClusterBreakingPotential", (True, "x")),
    ):
        if values.chance(share):
            options[name] = values.pick(choices)
    if values.chance(0.1):
        mutate(values, options)
    return "application/json", as_json(options)
