"""Answer AdmissionReviews about pods: give those with classic claims their shadows."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.api.classic_dra.names import POD_CLAIMS
from holdfast.api.decode import JsonMapping, JsonObject
from holdfast.api.json_fields import map_at, maps_at
from holdfast.runtime.errors import BadRequest
from holdfast.state.classic_dra.annotated_pods import with_shadows

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
DEFAULT_SCHEDULER = "default-scheduler"


class Result(StrEnum):
    """The result of a review."""

    PATCHED = "patched"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


class _Request(msgspec.Struct):
    uid: str
    kind: dict[str, str] = {}
    operation: str = ""
    object: dict[str, Any] | None = None
    sub_resource: str = msgspec.field(default="", name="subResource")


class _Review(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion")
    kind: str
    request: _Request


_decode = msgspec.json.Decoder(_Review)


def answer_review(
    body: bytes, name_of: Callable[[str], str], scheduler_name: str = ""
) -> tuple[Result, JsonObject]:
    """Return the result and the response to a review; raises BadRequest if it cannot be read.

    ``name_of`` returns a new shadow name for the name of an entry. ``scheduler_name`` is given to
    pods with classic claims whose scheduler is the default.
    """
    try:
        review = _decode.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise BadRequest(f"the body is not an {KIND}: {error}") from error
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise BadRequest(f"{review.api_version} {review.kind} is not {API_VERSION} {KIND}")
    request = review.request
    answer: JsonObject = {"uid": request.uid, "allowed": True}
    result = Result.UNCHANGED
    if _is_creation(request):
        try:
            patch = pod_patch(request.object or {}, name_of, scheduler_name)
        except BadRequest as error:
            result = Result.REFUSED
            status = {"code": 422, "reason": "Invalid", "message": error.message}
            answer |= {"allowed": False, "status": status}
        else:
            if patch:
                result = Result.PATCHED
                text = b64encode(msgspec.json.encode(patch)).decode()
                answer |= {"patchType": "JSONPatch", "patch": text}
    return result, {"apiVersion": API_VERSION, "kind": KIND, "response": answer}


def pod_patch(
    pod: JsonMapping, name_of: Callable[[str], str], scheduler_name: str = ""
) -> list[JsonObject]:
    """Return the JSON patch that gives a pod its shadows; raises BadRequest.

    >>> text = '[{"name": "gpu", "claim": {"resourceClaimName": "mine"}}]'
    >>> pod_patch({"metadata": {"annotations": {POD_CLAIMS: text}}, "spec": {}}, "shadow-{}".format)
    ... # doctest: +NORMALIZE_WHITESPACE
    [{'op': 'add', 'path': '/spec/resourceClaims',
      'value': [{'name': 'gpu', 'resourceClaimName': 'shadow-gpu'}]}]
    """
    metadata, spec = map_at(pod, "metadata"), map_at(pod, "spec")
    if POD_CLAIMS not in map_at(metadata, "annotations"):
        return []
    new_metadata, new_spec = with_shadows(metadata, spec, name_of)
    patch: list[JsonObject] = []
    if new_metadata is not metadata:
        key = POD_CLAIMS.replace("~", "~0").replace("/", "~1")
        path = f"/metadata/annotations/{key}"
        patch.append(_add(path, new_metadata["annotations"][POD_CLAIMS]))
    if new_spec.get("resourceClaims") != spec.get("resourceClaims"):
        patch.append(_add("/spec/resourceClaims", new_spec["resourceClaims"]))
    for part in ("initContainers", "containers"):
        pairs = zip(maps_at(spec, part), maps_at(new_spec, part), strict=True)
        patch += [
            _add(f"/spec/{part}/{i}/resources", new["resources"])
            for i, (old, new) in enumerate(pairs)
            if new is not old
        ]
    if scheduler_name and spec.get("schedulerName", DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER:
        patch.append(_add("/spec/schedulerName", scheduler_name))
    return patch


def _is_creation(request: _Request) -> bool:
    is_pod = request.kind.get("group", "") == "" and request.kind.get("kind") == "Pod"
    return is_pod and request.operation == "CREATE" and not request.sub_resource


def _add(path: str, value: Any) -> JsonObject:
    return {"op": "add", "path": path, "value": value}
