"""The verbs every kind has: create, get, list, watch, update, patch, delete, and subresources.

May not live here: what differs between kinds.
"""
