"""Functions on IP addresses, CIDRs, URLs and named formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv6Address,
    IPv6Interface,
    ip_address,
    ip_interface,
)
from typing import Any

from holdfast.api import names, string_formats
from holdfast.api.cel.declarations import FORMATS
from holdfast.api.cel.urls import Url
from holdfast.api.cel.values import CIDR, FORMAT, IP, URL, tagged, untagged
from holdfast.runtime.errors import BadRequest

_Check = Callable[[str], list[str]]


def _prefix(check: _Check) -> _Check:
    """Return the check of a name that a suffix is appended to: it may end with a dash."""

    def check_prefix(text: str) -> list[str]:
        whole = text[:-1] + "a" if len(text) > 1 and text.endswith("-") else text
        return check(whole)

    return check_prefix


def _uri(text: str) -> list[str]:
    try:
        Url.parse(text)
    except BadRequest as wrong:
        return [wrong.message]
    return []


def _schema_format(name: str, message: str) -> _Check:
    return lambda text: [] if string_formats.FORMATS[name](text) else [message]


_NAMED_FORMATS: Mapping[str, _Check] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_1035_label,
    "qualifiedName": names.label_key,
    "dns1123LabelPrefix": _prefix(names.dns_label),
    "dns1123SubdomainPrefix": _prefix(names.dns_subdomain),
    "dns1035LabelPrefix": _prefix(names.dns_1035_label),
    "labelValue": names.label_value,
    "uri": _uri,
    "uuid": _schema_format("uuid", "does not match the UUID format"),
    "byte": _schema_format("byte", "invalid base64"),
    "date": _schema_format("date", "invalid date"),
    "datetime": _schema_format("datetime", "invalid datetime"),
}


_Address = IPv4Address | IPv6Address
_Interface = IPv4Interface | IPv6Interface
_MULTICAST_6 = 0xFF02


def _parse_ip(text: str) -> _Address:
    try:
        address = ip_address(text)
    except ValueError:
        raise BadRequest(
            f'IP Address "{text}" parse error during conversion from string: ParseAddr("{text}"): '
            "unable to parse IP"
        ) from None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise BadRequest(f'IP address "{text}" with zone value is not allowed')
        if address.ipv4_mapped is not None:
            raise BadRequest(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _parse_cidr(text: str) -> _Interface:
    address, slash, bits = text.partition("/")
    try:
        if not slash or not bits.isdecimal() or (len(bits) > 1 and bits[0] == "0") or "%" in text:
            raise ValueError(text)
        interface = ip_interface(f"{address}/{bits}")
    except ValueError:
        problem = "network address parse error during conversion from string"
        raise BadRequest(f'{problem}: {problem}: netip.ParsePrefix("{text}")') from None
    if isinstance(interface, IPv6Interface) and interface.ip.ipv4_mapped is not None:
        problem = "network address parse error during conversion from string"
        raise BadRequest(f'{problem}: IPv4-mapped IPv6 address "{text}" is not allowed')
    return interface


def _ip(data: bytearray) -> _Address:
    return ip_address(untagged(IP, data))


def _cidr(data: bytearray) -> _Interface:
    return ip_interface(untagged(CIDR, data))


def _url(data: bytearray) -> Url:
    return Url.parse(untagged(URL, data))


def _new_url(text: str) -> bytes:
    try:
        Url.parse(text)
    except BadRequest as wrong:
        message = f"URL parse error during conversion from string: {wrong.message}"
        raise BadRequest(message) from None
    return tagged(URL, text)


def _is_link_local_multicast(address: _Address) -> bool:
    if isinstance(address, IPv4Address):
        return address.packed[:3] == b"\xe0\x00\x00"
    return int.from_bytes(address.packed[:2], "big") & 0xFF0F == _MULTICAST_6


def _is_global_unicast(address: _Address) -> bool:
    if isinstance(address, IPv4Address) and int(address) in (0, 0xFFFFFFFF):
        return False
    special = address.is_unspecified or address.is_loopback or address.is_multicast
    return not special and not address.is_link_local


def _contains_ip(network: _Interface, address: _Address) -> bool:
    return network.version == address.version and address in network.network


def _contains_cidr(network: _Interface, other: _Interface) -> bool:
    return (
        network.network.overlaps(other.network)
        and network.network.prefixlen <= other.network.prefixlen
    )


def succeeds(read: Callable[..., object]) -> Callable[..., bool]:
    """Return a function that tells whether a value can be read from its arguments."""

    def check(*args: Any) -> bool:
        try:
            read(*args)
        except BadRequest:
            return False
        return True

    return check


def _validate(data: bytearray, text: str) -> list[str]:
    """Return what is wrong; ``rewriting`` turns it into an optional value."""
    return _NAMED_FORMATS[untagged(FORMAT, data)](text)


def _named_format(name: str) -> bytes:
    return tagged(FORMAT, name) if name in _NAMED_FORMATS else b""


def _format(name: str) -> Callable[[], bytes]:
    return lambda: tagged(FORMAT, name)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "string_to_ip": lambda text: tagged(IP, str(_parse_ip(text))),
    "is_ip": succeeds(_parse_ip),
    "ip_is_canonical": lambda text: str(_parse_ip(text)) == text,
    "ip_to_string": lambda data: untagged(IP, data),
    "ip_family": lambda data: _ip(data).version,
    "ip_is_unspecified": lambda data: _ip(data).is_unspecified,
    "ip_is_loopback": lambda data: _ip(data).is_loopback,
    "ip_is_link_local_multicast": lambda data: _is_link_local_multicast(_ip(data)),
    "ip_is_link_local_unicast": lambda data: _ip(data).is_link_local,
    "ip_is_global_unicast": lambda data: _is_global_unicast(_ip(data)),
    "string_to_cidr": lambda text: tagged(CIDR, str(_parse_cidr(text))),
    "is_cidr": succeeds(_parse_cidr),
    "cidr_to_string": lambda data: untagged(CIDR, data),
    "cidr_contains_ip_string": lambda data, text: _contains_ip(_cidr(data), _parse_ip(text)),
    "cidr_contains_ip_ip": lambda data, other: _contains_ip(_cidr(data), _ip(other)),
    "cidr_contains_cidr_string": lambda data, text: _contains_cidr(_cidr(data), _parse_cidr(text)),
    "cidr_contains_cidr": lambda data, other: _contains_cidr(_cidr(data), _cidr(other)),
    "cidr_ip": lambda data: tagged(IP, str(_cidr(data).ip)),
    "cidr_prefix_length": lambda data: _cidr(data).network.prefixlen,
    "cidr_masked": lambda data: tagged(CIDR, str(_cidr(data).network)),
    "string_to_url": _new_url,
    "is_url_string": succeeds(Url.parse),
    "url_get_scheme": lambda data: _url(data).scheme,
    "url_get_host": lambda data: _url(data).host,
    "url_get_hostname": lambda data: _url(data).hostname,
    "url_get_port": lambda data: _url(data).port,
    "url_get_escaped_path": lambda data: _url(data).escaped_path,
    "url_get_query": lambda data: _url(data).query_values(),
    "format-named": _named_format,
    "format-validate": _validate,
    **{f"format.{name}": _format(name) for name in FORMATS},
}
"""By overload."""
