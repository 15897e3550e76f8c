"""URLs as Go parses them: an absolute URL or an absolute path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, unquote_plus

from holdfast.runtime.errors import BadRequest

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_BAD_HOST = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|} ]")
_PATH_SAFE = "/:@&=+$,;!~*'()[]"
_LONGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL; ``path`` and ``query`` are as they were written."""

    scheme: str
    host: str
    path: str
    query: str

    @classmethod
    def parse(cls, text: str) -> Url:
        """Parse a URL; raise BadRequest if it is not absolute or not valid.

        >>> Url.parse("https://[::1]:80/a?b=c#d").host
        '[::1]:80'
        """
        if any(c < " " or c == "\x7f" for c in text):
            raise _error(text, "net/url: invalid control character in URL")
        if not text:
            raise _error(text, "empty url")
        if len(text) > _LONGEST:
            raise _error(text[:64], "too long")
        scheme, rest = _scheme(text)
        if not rest.startswith("/") and (not scheme or rest.startswith("#")):
            raise _error(text, "invalid URI for request")
        rest, _, fragment = rest.partition("#")
        if _BAD_ESCAPE.search(fragment):
            raise _error(text, "invalid URL escape")
        rest, _, query = rest.partition("?")
        if scheme and not rest.startswith("/"):
            return cls(scheme, "", "", query)  # opaque, such as mailto:a@b
        host = ""
        if rest.startswith("//") and (scheme or not rest.startswith("///")):
            authority, slash, path = rest[2:].partition("/")
            host, rest = _host(authority, text), slash + path
        if escape := _BAD_ESCAPE.search(rest):
            raise _error(text, f'invalid URL escape "{rest[escape.start() : escape.start() + 3]}"')
        return cls(scheme, host, rest, query)

    @property
    def port(self) -> str:
        """The port, "" if there is none."""
        tail = self.host.rpartition("]")[2] if "]" in self.host else self.host
        return tail.rpartition(":")[2] if ":" in tail else ""

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        name = self.host.removesuffix(f":{self.port}") if self.port else self.host.rstrip(":")
        return name[1:-1] if name.startswith("[") and name.endswith("]") else name

    @property
    def escaped_path(self) -> str:
        """The path; characters that were not escaped are."""
        return quote(self.path, safe=_PATH_SAFE + "%")

    def query_values(self) -> dict[str, list[str]]:
        """Return the values of each parameter; parts that cannot be read are left out."""
        values: dict[str, list[str]] = {}
        for part in self.query.split("&"):
            if part and ";" not in part and not _BAD_ESCAPE.search(part):
                key, _, value = part.partition("=")
                values.setdefault(unquote_plus(key), []).append(unquote_plus(value))
        return values


def _scheme(text: str) -> tuple[str, str]:
    if text.startswith(":"):
        raise _error(text, "missing protocol scheme")
    if shape := _SCHEME.match(text):
        return shape[1].lower(), text[shape.end() :]
    first = text.split("/", maxsplit=1)[0]
    if ":" in first and not text.startswith("/") and re.match(r"[0-9+.-]", text):
        raise _error(text, "first path segment in URL cannot contain colon")
    return "", text


def _host(authority: str, text: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and (not _USER.fullmatch(user) or _BAD_ESCAPE.search(user)):
        raise _error(text, "net/url: invalid userinfo")
    if host.startswith("["):
        inner, bracket, port = host[1:].partition("]")
        if not bracket:
            raise _error(text, "missing ']' in host")
        if not re.fullmatch(r"[0-9A-Fa-f:.]*(%25[^%]*)?", inner):
            raise _error(text, f'invalid host: "{inner}"')
    else:
        name, colon, number = host.partition(":")
        port = colon + number
        if bad := _BAD_HOST.search(name):
            raise _error(text, f'invalid character "{bad[0]}" in host name')
        if escape := re.search(r"%.{0,2}", name):
            raise _error(text, f'invalid URL escape "{escape[0]}"')
    if port and not re.fullmatch(r":[0-9]*", port):
        raise _error(text, f'invalid port "{port}" after host')
    return unquote(host)


def _error(text: str, message: str) -> BadRequest:
    return BadRequest(f'parse "{text}": {message}')
