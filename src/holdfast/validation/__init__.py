"""Validation of typed objects, field by field.

Lives here: checks that both the API server (when an object is written) and the scheduler (when
another API server accepted the object) make. They return causes that name the field.
May not live here: the structure of JSON, authorization, I/O, clocks.
"""
