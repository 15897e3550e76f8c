"""The forms in which the KEP writes classic claims of a pod, and the one in which they are stored.

All functions take the spec of a pod as JSON and return it unchanged, or a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.api.decode import JsonObject
from holdfast.api.json_fields import map_at

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_STRUCTURED = ("resourceClaimName", "resourceClaimTemplateName")


def with_typed_claims(spec: JsonObject) -> JsonObject:
    """Return a spec in which claims have the form of the KEP's types and of ``v1`` Pod.

    >>> story = {"name": "gpu", "template": {"resourceClassName": "acme"}}
    >>> with_typed_claims({"resourceClaims": [story]})["resourceClaims"]
    [{'name': 'gpu', 'claim': {'template': {'spec': {'resourceClassName': 'acme'}}}}]
    >>> with_typed_claims({"containers": [{"resources": {"claims": ["a"]}}]})
    {'containers': [{'resources': {'claims': [{'name': 'a'}]}}]}
    """
    spec = _map_items(spec, "resourceClaims", _typed_entry)
    for part in _CONTAINERS:
        spec = _map_items(spec, part, _typed_container)
    return spec


def with_stored_claims(spec: JsonObject, stored: Mapping[str, Any]) -> JsonObject:
    """Return a spec in which entries have the ``claim`` that a typed client has dropped.

    A client without this field sends an entry that has only a name.
    """
    listed = stored.get("resourceClaims")
    classic = {
        entry.get("name"): entry["claim"]
        for entry in (listed if isinstance(listed, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("claim"), dict)
    }
    if not classic:
        return spec
    return _map_items(
        spec,
        "resourceClaims",
        lambda entry: (
            {**entry, "claim": classic[entry["name"]]}
            if [key for key, value in entry.items() if value is not None] == ["name"]
            and isinstance(entry["name"], str)
            and entry["name"] in classic
            else entry
        ),
    )


def _map_items(
    holder: JsonObject, key: str, change: Callable[[JsonObject], JsonObject]
) -> JsonObject:
    """Change the objects in a list of an object; other items stay, for the validation."""
    listed = holder.get(key)
    if not isinstance(listed, list):
        return holder
    changed = [change(item) if isinstance(item, dict) else item for item in listed]
    same = all(new is old for new, old in zip(changed, listed, strict=True))
    return holder if same else {**holder, key: changed}


def _typed_entry(entry: JsonObject) -> JsonObject:
    source, claim = entry.get("source"), entry.get("claim")
    if "template" in entry and (claim is None or isinstance(claim, dict)):
        claim = {**(claim or {}), "template": entry["template"]}
        entry = {key: value for key, value in entry.items() if key != "template"}
    elif isinstance(source, dict) and source and set(source) <= set(_STRUCTURED):
        entry = {key: value for key, value in entry.items() if key != "source"} | source
    if isinstance(claim, dict) and isinstance(claim.get("template"), dict):
        template = claim["template"]
        if "resourceClassName" in template and not {"spec", "metadata"} & set(template):
            claim = {**claim, "template": {"spec": template}}
    return entry if claim is entry.get("claim") else {**entry, "claim": claim}


def _typed_container(container: JsonObject) -> JsonObject:
    resources = map_at(container, "resources")
    claims = resources.get("claims")
    if not isinstance(claims, list) or not any(isinstance(one, str) for one in claims):
        return container
    typed = [{"name": one} if isinstance(one, str) else one for one in claims]
    return {**container, "resources": {**resources, "claims": typed}}
