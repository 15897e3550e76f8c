"""Validation of the labels and annotations of objects and of templates of objects."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from holdfast.api import field_errors, names
from holdfast.runtime.errors import Cause

_MOST_ANNOTATION_BYTES = 256 * 1024
_CACHED_LENGTH = 512  # longer texts are invalid and would fill the cache


def _cached(check: names.NameCheck) -> names.NameCheck:
    """Cache the results: thousands of objects have the same few labels."""
    known = lru_cache(maxsize=4096)(check)
    return lambda text: known(text) if len(text) <= _CACHED_LENGTH else check(text)


label_key = _cached(names.label_key)
_label_value = _cached(names.label_value)


def check_labels(labels: Any, at: str) -> Iterable[Cause]:
    """Yield what is wrong with the labels at a path."""
    if labels is not None and not isinstance(labels, dict):
        yield field_errors.invalid(at, labels, "must be a map of strings")
        return
    for key, value in (labels or {}).items():
        for message in label_key(key):
            yield field_errors.invalid(at, key, message)
        if not isinstance(value, str):
            yield field_errors.invalid(at, value, "must be a string")
        else:
            for message in _label_value(value):
                yield field_errors.invalid(at, value, message)


def check_annotations(annotations: Any, at: str) -> Iterable[Cause]:
    """Yield what is wrong with the annotations at a path."""
    if annotations is not None and not isinstance(annotations, dict):
        yield field_errors.invalid(at, annotations, "must be a map of strings")
        return
    total = 0
    for key, value in (annotations or {}).items():
        for message in label_key(key.lower()):
            yield field_errors.invalid(at, key, message)
        if not isinstance(value, str):
            yield field_errors.invalid(at, value, "must be a string")
        else:
            total += _bytes(key) + _bytes(value)
    if total > _MOST_ANNOTATION_BYTES:
        yield field_errors.too_long(at, _MOST_ANNOTATION_BYTES)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
