"""What happens to an object between reading it and keeping it: fill in, complete, refuse.

Lives here: the default-on admission steps that change what a scheduler sees (namespace life,
priority, tolerations, scheduling gates) and the order they run in (``chain``). May not live here:
field validation, defaulting that needs no other object (``api.defaults``), storage.
"""
