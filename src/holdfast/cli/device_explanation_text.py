"""Format as text what prevents the allocation of a pod's devices, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.api.decode import JsonObject
from holdfast.cli.pod_progress import QUOTA_ADVICE, QUOTA_WORDS
from holdfast.cli.table import counted, join_names
from holdfast.state.devices.obstacles import ObstacleKind as Kind

PLUGIN = "DynamicResources"
_ADVICE_BEFORE_FILTERS = {
    "preEnqueue": "create the claim or the template that spec.resourceClaims of the pod names; "
    "`kubectl describe pod` shows events of the controller that creates claims",
    "preFilter": "`kubectl get deviceclasses` and `kubectl get resourceclaims` list what exists",
}
_ADVICE_FOR_WORDS = {
    QUOTA_WORDS: QUOTA_ADVICE,
    "resourceclaim in use": "wait until a pod that uses the claim ends, or give the pod its own "
    "claim",
}
_ADVICE = {
    Kind.NO_DEVICE: "a driver has to publish a ResourceSlice for the node",
    Kind.POOL: "its driver has to publish valid slices, as many as they say",
    Kind.SELECTOR_ERROR: "correct the selector; what a device may lack is read with "
    '`device.attributes["d"].?model.orValue("")`',
    Kind.SELECTOR: "`holdfast devices -o wide` shows the attributes that selectors see",
    Kind.BINDING_CONDITIONS: "start the scheduler with DRADeviceBindingConditions=true",
    Kind.NODE: "let the pod run on the nodes of the device",
    Kind.IN_USE: "wait until a claim frees it, add devices, or give the pod a higher priority",
    Kind.CHOSEN: "request fewer devices, or add some to the node",
    Kind.CAPACITY: "request less, or wait until a claim frees its share",
    Kind.COUNTER: "wait until devices that use the counter are freed, or request a smaller one",
    Kind.TAINT: "let the request tolerate the taint, or remove it from the device",
    Kind.CONSTRAINT: "request fewer devices, or leave the constraint out of a new claim",
    Kind.TOO_FEW: "request fewer devices, or add some to the node",
}
_ADVICE_FOR_RESOURCES = {
    Kind.TAINT: "remove the taint, or use a claim: extended resources tolerate none",
    Kind.SELECTOR: "`holdfast devices -o wide` shows the attributes that the class sees",
}


def device_lines(answer: JsonObject) -> list[str]:
    """Format the part of an explanation about the pod's claims and extended resources."""
    for point, advice in _ADVICE_BEFORE_FILTERS.items():
        rejection = answer.get(point) or {}
        if rejection.get("plugin") == PLUGIN:
            said = " ".join((*rejection["reasons"], answer.get("claimFailure") or ""))
            better = (words for key, words in _ADVICE_FOR_WORDS.items() if key in said)
            return [f"  to do: {next(better, advice)}"]
    details = (answer.get("details") or {}).get(PLUGIN)
    if not details:
        return []
    # After an error of a selector it is unknown what serves the resource.
    failed = bool(answer.get("error"))
    resources = details["extendedResources"]
    lines = [line for one in resources for line in _resource(one, failed=failed)]
    for request in details["requests"]:
        for alternative in request["alternatives"]:
            lines += _request(request, alternative)
            if not answer.get("schedulable"):
                lines += _closest(alternative)
                lines += [] if _preempts(answer) else _advice(request, alternative)
    lines += [_error(one) for one in details["errors"]]
    shown = {claim["claim"] for claim in answer.get("waitsForDevices") or ()}
    allocated = details["allocatedClaims"]
    lines += [_allocated(claim) for claim in allocated if claim["claim"] not in shown]
    if left := details["leftToNominatedPods"]:
        words = "free devices are left to pods that are nominated to the node"
        lines.append(f"  {len(left):>5}  {words}: {join_names(left)}")
    if details["oldClaim"]:
        lines.append(f"  claim {details['oldClaim']} of an earlier attempt has to be deleted first")
    return [*lines, *_examined(details)]


def _examined(details: JsonObject) -> Iterable[str]:
    """Format how many nodes were examined, unless all nodes and all devices were."""
    rejected, examined = details["rejectedNodes"], details["examinedNodes"]
    partly = details["partlyExaminedNodes"]
    if examined < rejected or partly:
        words = f"  devices were examined on {examined} of {rejected} nodes"
        yield words + (f", and not all of them on {partly} nodes" if partly else "")


def _request(request: JsonObject, alternative: JsonObject) -> list[str]:
    count, most_devices = alternative["count"], alternative["found"]
    wanted = "all devices" if count is None else counted(count, "device")
    most = f", at most {most_devices} found on a node" if most_devices else ""
    lines = [
        f"  {_subject(request, alternative)} needs {wanted} of class "
        f"{alternative['deviceClass']}{most}; what is in the way:"
    ]
    for obstacle in alternative["obstacles"]:
        devices = obstacle["devices"]
        failing = obstacle.get("failingDevices")
        which = join_names(failing) if failing else counted(devices, "device")
        affected = f" ({which})" if devices else ""
        names = obstacle["nodes"]
        lines.append(f"  {len(names):>5}  {obstacle['rule']}{affected}: {join_names(names)}")
    return lines


def _subject(request: JsonObject, alternative: JsonObject) -> str:
    if request["extendedResource"]:
        return f"extended resource {request['extendedResource']} of {request['container']}"
    names = [request["request"], alternative["subrequest"]]
    return f"claim {request['claim']}, request {'/'.join(filter(None, names))}"


def _closest(alternative: JsonObject) -> Iterable[str]:
    """Format the closest device, with everything that it lacks."""
    closest, count = alternative["closest"], alternative["count"]
    if not closest:
        return
    reasons = []
    for obstacle in closest["obstacles"]:
        words = obstacle["rule"]
        if obstacle["kind"] == Kind.IN_USE and closest["holders"]:
            words += f" by {join_names([_holder(one) for one in closest['holders']])}"
        reasons.append(words + (f" ({obstacle['detail']})" if obstacle["detail"] else ""))
    others = f", in addition to {closest['found']} of {count}" if closest["found"] and count else ""
    where = f"{closest['device']} on {closest['node']}{others}"
    yield f"         closest: {where}: {'; '.join(reasons)}"


def _advice(request: JsonObject, alternative: JsonObject) -> Iterable[str]:
    """Format what to do about the closest device's obstacles, or about the most frequent one."""
    closest = alternative["closest"]
    obstacles = closest["obstacles"] if closest else alternative["obstacles"][:1]
    known = _ADVICE | _ADVICE_FOR_RESOURCES if request["extendedResource"] else _ADVICE
    words = dict.fromkeys(known[Kind(obstacle["kind"])] for obstacle in obstacles)
    if words:
        yield f"         to do: {'; '.join(words)}"


def _preempts(answer: JsonObject) -> bool:
    """Return whether preemption makes a node feasible: then there is nothing to do."""
    return bool((answer.get("preemption") or {}).get("nominatedNode"))


def _holder(holder: JsonObject) -> str:
    pods = f" of pod {join_names(holder['pods'])}" if holder["pods"] else ", which no pod uses"
    return f"claim {holder['claim']}{pods}"


def _allocated(claim: JsonObject) -> str:
    devices = join_names(claim["devices"])
    words = f"  claim {claim['claim']} has {devices}, for use on {claim['nodes']}"
    if claim["bindingConditions"] == "waiting":
        return f"{words}; its driver has not reported {join_names(claim['missing'])} yet"
    if claim["bindingConditions"] == "failed":
        return f"{words}; its driver reports a failure, so it is deallocated and tried again"
    return words


def _error(error: JsonObject) -> str:
    return f"  {len(error['nodes']):>5}  {error['message']}: {join_names(error['nodes'])}"


def _resource(resource: JsonObject, *, failed: bool) -> Iterable[str]:
    if failed and not resource["devicePlugin"] and not resource["devices"]:
        return
    by_class = f"by devices of class {resource['deviceClass']}:"
    by_plugin = "by a device plugin where a node has it, else " if resource["devicePlugin"] else ""
    yield f"  {resource['name']} is served {by_plugin}{by_class}"
    for words, nodes in (
        ("device plugin", resource["devicePlugin"]),
        (f"class {resource['deviceClass']}", resource["devices"]),
    ):
        if nodes:
            free, total = (sum(node[part] for node in nodes) for part in ("free", "total"))
            names = join_names([node["node"] for node in nodes])
            yield f"  {len(nodes):>5}  {words}, {free} of {total} free: {names}"
    if not resource["devicePlugin"] and not resource["devices"]:
        yield "         no node has it"
