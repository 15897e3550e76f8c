"""Typed Kubernetes objects, quantities, selectors, tolerations, defaults and the scheme.

Lives here: msgspec structs with the fields that Holdfast reads, parsing and comparison of their
values, the formats of names, texts and patterns, errors of fields, defaulting, and the list of
typed resources (``scheme``). May not live here: I/O, clocks, random numbers, scheduling. Structs
are for reading: an update made from a struct would lose unknown fields, so changes are written as
patches or by editing the raw object.
"""
