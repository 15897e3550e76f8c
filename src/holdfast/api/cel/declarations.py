"""The functions of Kubernetes that expressions may call, with upstream's types and overloads.

One line is ``name(parameters) -> result | overload``; ``T.name(…)`` is a method of T. Single
capital letters are type parameters. The checker reads these lines, so that errors and static types
are upstream's; ``functions`` and ``rewriting`` define how a function is evaluated. Functions of
CEL's standard library, of its optional values, lists and sets are the engine's own; ``_<_`` and
others are declared again here because upstream also compares numbers of different types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

_LINE = re.compile(r"(?P<head>.+)\((?P<parameters>.*)\) -> (?P<result>.+) \| (?P<overload>.+)")
_NUMBERS = {"int": "int64", "uint": "uint64", "double": "double"}
_ORDERED = ("bool", "string", "bytes", "timestamp", "duration")
_OPERATORS = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMABLE = ("int", "uint", "double", "duration")
REDECLARED = (*_OPERATORS, "string")
"""Functions of the standard library that are declared again here."""
FORMATS = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix",
    "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date",
    "datetime",
)  # fmt: skip

_TEXT = """
string(string) -> string | string_to_string
string(bool) -> string | bool_to_string
string(bytes) -> string | bytes_to_string
string(double) -> string | double_to_string
string(int) -> string | int64_to_string
string(uint) -> string | uint64_to_string
string(duration) -> string | duration_to_string
string(timestamp) -> string | timestamp_to_string
string(net.IP) -> string | ip_to_string
string(net.CIDR) -> string | cidr_to_string
string.charAt(int) -> string | string_char_at_int
string.indexOf(string) -> int | string_index_of_string
string.indexOf(string, int) -> int | string_index_of_string_int
string.lastIndexOf(string) -> int | string_last_index_of_string
string.lastIndexOf(string, int) -> int | string_last_index_of_string_int
string.lowerAscii() -> string | string_lower_ascii
string.upperAscii() -> string | string_upper_ascii
string.trim() -> string | string_trim
string.replace(string, string) -> string | string_replace_string_string
string.replace(string, string, int) -> string | string_replace_string_string_int
string.split(string) -> list<string> | string_split_string
string.split(string, int) -> list<string> | string_split_string_int
string.substring(int) -> string | string_substring_int
string.substring(int, int) -> string | string_substring_int_int
string.format(list<dyn>) -> string | string_format
strings.quote(string) -> string | strings_quote
list<string>.join() -> string | list_join
list<string>.join(string) -> string | list_join_string
string.find(string) -> string | string_find_string
string.findAll(string) -> list<string> | string_find_all_string
string.findAll(string, int) -> list<string> | string_find_all_string_int
"""
_LISTS = """
list<A>.indexOf(A) -> int | list_a_index_of_int
list<A>.lastIndexOf(A) -> int | list_a_last_index_of_int
optional.unwrap(list<optional_type<V>>) -> list<V> | optional_unwrap
list<optional_type<V>>.unwrapOpt() -> list<V> | optional_unwrapOpt
"""
_QUANTITIES = """
quantity(string) -> kubernetes.Quantity | string_to_quantity
isQuantity(string) -> bool | is_quantity_string
kubernetes.Quantity.isGreaterThan(kubernetes.Quantity) -> bool | quantity_is_greater_than
kubernetes.Quantity.isLessThan(kubernetes.Quantity) -> bool | quantity_is_less_than
kubernetes.Quantity.compareTo(kubernetes.Quantity) -> int | quantity_compare_to
kubernetes.Quantity.asApproximateFloat() -> double | quantity_get_float
kubernetes.Quantity.asInteger() -> int | quantity_get_int
kubernetes.Quantity.isInteger() -> bool | quantity_is_integer
sign(kubernetes.Quantity) -> int | quantity_sign
kubernetes.Quantity.add(kubernetes.Quantity) -> kubernetes.Quantity | quantity_add
kubernetes.Quantity.add(int) -> kubernetes.Quantity | quantity_add_int
kubernetes.Quantity.sub(kubernetes.Quantity) -> kubernetes.Quantity | quantity_sub
kubernetes.Quantity.sub(int) -> kubernetes.Quantity | quantity_sub_int
semver(string) -> kubernetes.Semver | string_to_semver
semver(string, bool) -> kubernetes.Semver | string_bool_to_semver
isSemver(string) -> bool | is_semver_string
isSemver(string, bool) -> bool | is_semver_string_bool
kubernetes.Semver.isGreaterThan(kubernetes.Semver) -> bool | semver_is_greater_than
kubernetes.Semver.isLessThan(kubernetes.Semver) -> bool | semver_is_less_than
kubernetes.Semver.compareTo(kubernetes.Semver) -> int | semver_compare_to
kubernetes.Semver.major() -> int | semver_major
kubernetes.Semver.minor() -> int | semver_minor
kubernetes.Semver.patch() -> int | semver_patch
"""
_NETWORKS = """
ip(string) -> net.IP | string_to_ip
isIP(string) -> bool | is_ip
ip.isCanonical(string) -> bool | ip_is_canonical
net.IP.family() -> int | ip_family
net.IP.isUnspecified() -> bool | ip_is_unspecified
net.IP.isLoopback() -> bool | ip_is_loopback
net.IP.isLinkLocalMulticast() -> bool | ip_is_link_local_multicast
net.IP.isLinkLocalUnicast() -> bool | ip_is_link_local_unicast
net.IP.isGlobalUnicast() -> bool | ip_is_global_unicast
cidr(string) -> net.CIDR | string_to_cidr
isCIDR(string) -> bool | is_cidr
net.CIDR.containsIP(string) -> bool | cidr_contains_ip_string
net.CIDR.containsIP(net.IP) -> bool | cidr_contains_ip_ip
net.CIDR.containsCIDR(string) -> bool | cidr_contains_cidr_string
net.CIDR.containsCIDR(net.CIDR) -> bool | cidr_contains_cidr
net.CIDR.ip() -> net.IP | cidr_ip
net.CIDR.prefixLength() -> int | cidr_prefix_length
net.CIDR.masked() -> net.CIDR | cidr_masked
url(string) -> kubernetes.URL | string_to_url
isURL(string) -> bool | is_url_string
kubernetes.URL.getScheme() -> string | url_get_scheme
kubernetes.URL.getHost() -> string | url_get_host
kubernetes.URL.getHostname() -> string | url_get_hostname
kubernetes.URL.getPort() -> string | url_get_port
kubernetes.URL.getEscapedPath() -> string | url_get_escaped_path
kubernetes.URL.getQuery() -> map<string, list<string>> | url_get_query
"""
_NAMED_FORMATS = """
format.named(string) -> optional_type<kubernetes.NamedFormat> | format-named
kubernetes.NamedFormat.validate(string) -> optional_type<list<string>> | format-validate
"""
INCLUDES = "dyn.includes(dyn) -> bool | dra_includes_dyn_dyn"
"""Declared for devices only, while list attributes are enabled."""


def _generated_lines() -> Iterator[str]:
    for operator, word in _OPERATORS.items():
        for left, left_id in _NUMBERS.items():
            for right, right_id in _NUMBERS.items():
                suffix = left_id if left == right else f"{left_id}_{right_id}"
                yield f"{operator}({left}, {right}) -> bool | {word}_{suffix}"
        yield from (f"{operator}({kind}, {kind}) -> bool | {word}_{kind}" for kind in _ORDERED)
    for kind in _COMPARABLE:
        yield f"list<{kind}>.isSorted() -> bool | list_{kind}_is_sorted_bool"
        yield f"list<{kind}>.min() -> {kind} | list_{kind}_min_{kind}"
        yield f"list<{kind}>.max() -> {kind} | list_{kind}_max_{kind}"
    yield from (f"list<{kind}>.sum() -> {kind} | list_{kind}_sum_{kind}" for kind in _SUMMABLE)
    yield from (f"format.{name}() -> kubernetes.NamedFormat | format.{name}" for name in FORMATS)


def declarations(*more: str) -> list[dict[str, Any]]:
    """Return all declarations, and ``more`` lines, as the engine's configuration has them."""
    functions: dict[str, dict[str, Any]] = {}
    for line in (*_base_lines(), *more):
        name, overload = _declaration(line)
        declared = functions.setdefault(name, {"name": name, "overloads": []})
        declared["overloads"].append(overload)
    return list(functions.values())


@cache
def _base_lines() -> tuple[str, ...]:
    written = _TEXT + _LISTS + _QUANTITIES + _NETWORKS + _NAMED_FORMATS
    return (*filter(None, written.splitlines()), *_generated_lines())


def _declaration(line: str) -> tuple[str, dict[str, Any]]:
    shape = _LINE.fullmatch(line)
    if shape is None:
        raise ValueError(f"not a declaration: {line}")
    overload: dict[str, Any] = {
        "id": shape["overload"],
        "args": [type_config(text) for text in _split(shape["parameters"])],
        "return": type_config(shape["result"]),
    }
    receiver, _, name = shape["head"].rpartition(".")
    if receiver in ("", "ip", "format", "strings", "optional"):
        return shape["head"], overload  # a namespace, not a receiver
    return name, overload | {"target": type_config(receiver)}


def _split(parameters: str) -> list[str]:
    """Split at the commas that are not inside angle brackets."""
    return [one.strip() for one in re.split(r",(?![^<]*>)", parameters) if one.strip()]


def type_config(text: str) -> dict[str, Any]:
    """Return a type as the engine's configuration has it.

    >>> type_config("list<A>")
    {'type_name': 'list', 'params': [{'type_name': 'A', 'is_type_param': True}]}
    """
    name, _, inner = text.strip().partition("<")
    config: dict[str, Any] = {"type_name": name}
    if inner:
        config["params"] = [type_config(one) for one in _split(inner[:-1])]
    elif len(name) == 1:
        config["is_type_param"] = True
    return config
