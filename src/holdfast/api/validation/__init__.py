"""Validation of objects, field by field.

Lives here: checks of what objects contain, pure. Those of typed objects are made by the API server
(when an object is written) and by the scheduler (when another API server accepted the object);
those of raw objects by the API server. They return causes that name the field, or warnings about
what is valid but has no effect. May not live here: the types of JSON values, authorization, I/O,
clocks.
"""
