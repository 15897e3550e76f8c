"""Validation of objects, field by field.

Lives here: checks of what objects contain, pure. The API server checks typed objects when they are
written; the scheduler checks them if another API server accepted them. Only the API server checks
raw objects. They return causes that name the field, or warnings about what is valid but has no
effect. May not live here: the types of JSON values, authorization, I/O, clocks.
"""
