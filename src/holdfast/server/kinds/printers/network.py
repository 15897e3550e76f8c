"""Printers of services, endpoints, ingresses and other network kinds."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.server.tables.printer import (
    NONE,
    UNKNOWN,
    Obj,
    Printer,
    TableCells,
    age,
    columns,
    first_few,
    items,
    labels_text,
    meta,
    name,
    or_else,
    part,
    selector_text,
)


def _service(obj: Obj, now: float) -> TableCells:
    spec = part(obj, "spec")
    addresses = items(spec, "clusterIPs") or [spec.get("clusterIP") or NONE]
    return [
        name(obj),
        spec.get("type", ""),
        addresses[0],
        _external(obj),
        ",".join(_port(port) for port in items(spec, "ports")) or NONE,
        age(obj, now),
        labels_text(part(spec, "selector")),
    ]


def _external(obj: Obj) -> str:
    spec = part(obj, "spec")
    external = items(spec, "externalIPs")
    kind = spec.get("type")
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(external) or NONE
    if kind == "LoadBalancer":
        return ",".join(filter(None, [_balancer(obj), *external])) or "<pending>"
    return str(spec.get("externalName", "")) if kind == "ExternalName" else UNKNOWN


def _balancer(obj: Obj) -> str:
    ingress = items(obj, "status", "loadBalancer", "ingress")
    return ",".join(sorted({i.get("ip") or i.get("hostname") or "" for i in ingress} - {""}))


def _port(port: Obj) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}"


def _endpoints(obj: Obj, now: float) -> TableCells:
    return [name(obj), first_few(_endpoint_addresses(obj), empty=NONE), age(obj, now)]


def _endpoint_addresses(obj: Obj) -> Iterator[str]:
    for subset in obj.get("subsets") or ():
        addresses = [a.get("ip", "") for a in items(subset, "addresses")]
        if not items(subset, "ports"):
            yield from addresses
        for port in items(subset, "ports"):
            yield from (
                f"[{ip}]:{port.get('port')}" if ":" in ip else f"{ip}:{port.get('port')}"
                for ip in addresses
            )


def _endpoint_slice(obj: Obj, now: float) -> TableCells:
    return [
        name(obj),
        obj.get("addressType", ""),
        first_few(str(p.get("port") or p.get("name") or "*") for p in obj.get("ports") or ()),
        first_few(a for e in obj.get("endpoints") or () for a in e.get("addresses") or ()),
        age(obj, now),
    ]


def _ingress(obj: Obj, now: float) -> TableCells:
    spec = part(obj, "spec")
    hosts = [rule.get("host") for rule in items(spec, "rules") if rule.get("host")]
    return [
        name(obj),
        or_else(spec.get("ingressClassName"), NONE),
        first_few(hosts, empty="*"),
        _balancer(obj),
        "80, 443" if items(spec, "tls") else "80",
        age(obj, now),
    ]


def _ingress_class(obj: Obj, now: float) -> TableCells:
    annotations = meta(obj).get("annotations") or {}
    default = annotations.get("ingressclass.kubernetes.io/is-default-class") == "true"
    parameters = part(obj, "spec", "parameters")
    parameters_text = NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        parameters_text = f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"
    return [
        f"{name(obj)} (default)" if default else name(obj),
        part(obj, "spec").get("controller", ""),
        parameters_text,
        age(obj, now),
    ]


def _network_policy(obj: Obj, now: float) -> TableCells:
    return [name(obj), selector_text(part(obj, "spec", "podSelector")), age(obj, now)]


def _cidr(obj: Obj, now: float) -> TableCells:
    return [name(obj), ",".join(items(obj, "spec", "cidrs")), age(obj, now)]


def _address(obj: Obj, now: float) -> TableCells:
    ref = part(obj, "spec", "parentRef")
    if not ref:
        return [name(obj), NONE]
    group = f".{ref['group']}" if ref.get("group") else ""
    namespace = f"/{ref['namespace']}" if ref.get("namespace") else ""
    kind = f"{ref.get('resource', '')}{group}".lower()
    return [name(obj), f"{kind}{namespace}/{ref.get('name', '')}"]


SERVICE = Printer(
    columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "+Selector"),
    _service,
)
ENDPOINTS = Printer(columns("Name", "Endpoints", "Age"), _endpoints)
ENDPOINT_SLICE = Printer(
    columns("Name", "AddressType", "Ports", "Endpoints", "Age"), _endpoint_slice
)
INGRESS = Printer(columns("Name", "Class", "Hosts", "Address", "Ports", "Age"), _ingress)
INGRESS_CLASS = Printer(columns("Name", "Controller", "Parameters", "Age"), _ingress_class)
NETWORK_POLICY = Printer(columns("Name", "Pod-Selector", "Age"), _network_policy)
SERVICE_CIDR = Printer(columns("Name", "CIDRs", "Age"), _cidr)
IP_ADDRESS = Printer(columns("Name", "ParentRef"), _address)
