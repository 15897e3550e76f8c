"""What happens to an object between reading it and keeping it: fill in, complete, refuse.

Lives here: the default-on admission steps that change what a scheduler sees (priority,
tolerations, scheduling gates), each for the kind whose entry names it. May not live here: the
order they run in (``verbs.admission``), field validation, defaulting that needs no other object
(``api.defaults``), storage.
"""
