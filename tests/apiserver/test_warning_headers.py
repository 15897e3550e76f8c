"""Warnings with data of a client are escaped, truncated and counted."""

import pytest

from apiserver.sample_objects import CONFIGMAPS, PODS, configmap, pod
from holdfast.server.wire.responses import WARNING_HEADER_LIMIT, warning_header

NAMES = {
    "line break": ("x\r\ny", r"x\r\ny"), "NUL": ("x\0", r"x\x00"),
    "escape": ("\x1b[31m", r"\x1b[31m"), "quote": ('a"b', r"a\"b"),
    "backslash": ("a\\b", r"a\\b"), "line separator": ("\u2028", r"\u2028"),
    "letter": ("é", "é"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "shown"), NAMES.values(), ids=NAMES)
async def test_an_unknown_field_of_any_name_is_warned_of(api, name, shown):
    made = await api.call("POST", CONFIGMAPS, configmap("a") | {name: 1})
    assert made.status == 201
    inner = rf'unknown field "{shown}"'.replace("\\", "\\\\").replace('"', '\\"')
    assert made.headers["warning"] == f'299 - "{inner}"'
    refused = await api.call(
        "POST", CONFIGMAPS, configmap("b") | {name: 1}, fieldValidation="Strict"
    )
    assert refused.status == 400
    assert refused.json["message"].endswith(f'strict decoding error: unknown field "{shown}"')


async def test_ten_thousand_unknown_fields_make_a_header_clients_can_read(api):
    odd = configmap("a") | {f"unknown{i}": i for i in range(10_000)}
    made = await api.call("POST", CONFIGMAPS, odd)
    assert made.status == 201
    assert len(made.headers["warning"]) < 8190
    assert made.headers["warning"].count("unknown field") <= 100
    refused = await api.call("POST", CONFIGMAPS, odd, fieldValidation="Strict")
    assert refused.status == 400
    assert refused.json["message"].count("unknown field") == 100


async def test_a_duplicate_field_is_listed_once(api):
    body = b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2","k":"3"}}'
    refused = await api.call("POST", CONFIGMAPS, body, fieldValidation="Strict")
    assert refused.json["message"].endswith('strict decoding error: duplicate field "data.k"')


async def test_a_long_path_of_an_unknown_field_is_truncated(api):
    made = await api.call("POST", PODS, pod("a") | {"x" * 1_000_000: 1})
    assert made.status == 201
    assert 0 < len(made.headers["warning"]) < 1000


def test_warnings_that_do_not_fit_are_counted():
    shown = warning_header(f"{i:04} " + "é" * 300 for i in range(1000))
    assert len(shown.encode()) < WARNING_HEADER_LIMIT + 100
    left = 1000 - shown.count("é" * 251)
    assert shown.endswith(f', 299 - "{left} more warnings are not shown"')
    assert "é" * 252 not in shown


def test_warnings_that_fit_are_unchanged():
    assert warning_header(["a", "b", "a", ""]) == '299 - "a", 299 - "b"'
    assert warning_header(["a\nb\tc\x00"]) == '299 - "a b c "'
    assert warning_header(["x" * 3000]) == f'299 - "{"x" * 3000}"'
