"""Validation of names."""

import pytest

from holdfast.api import names


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.dns_subdomain, ["a", "a.b-c.d", "0"], ["", "A", "a_b", "-a", "a..b", "a" * 254]),
        (names.dns_label, ["a", "a-b"], ["a.b", "a-", "a" * 64, "a\n"]),
        (names.path_segment, ["a:b", "system:x", ""], [".", "..", "a/b", "a%b"]),
        (names.label_key, ["a", "A_.b", "x.y/z"], ["", "/a", "a/", "a/b/c", "X/y", "a b", "é"]),
        (names.label_value, ["", "a", "A_.b-1"], ["-a", "a b", "a" * 64]),
    ],
)
def test_names_are_accepted_or_rejected(check, good, bad):
    assert [text for text in good if check(text)] == []
    assert [text for text in bad if not check(text)] == []


def test_name_errors_are_upstreams():
    assert names.dns_label("a.b") == ["must not contain dots"]
    assert names.label_value("a b") == [
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
        "'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    ]
