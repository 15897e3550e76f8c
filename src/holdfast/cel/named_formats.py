"""The formats of ``format.named``: what is wrong with a text, as upstream says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.api import names
from holdfast.api.string_formats import FORMATS
from holdfast.cel.urls import Url
from holdfast.errors import BadRequest

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
    return lambda text: [] if FORMATS[name](text) else [message]


CHECKS: Mapping[str, _Check] = {
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
