"""The verbs of all kinds: create, get, list, watch, update, patch, delete, and subresources.

Lives here: what a request does with an object of any kind, from decoding it to storing it. May not
live here: anything about single kinds. Verbs read the descriptor of a kind and never compare its
name.
"""
