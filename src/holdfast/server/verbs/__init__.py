"""The verbs of all kinds: create, get, list, watch, update, patch, delete, and subresources.

May not live here: anything about single kinds. Verbs read the descriptor of a kind and never
compare its name.
"""
