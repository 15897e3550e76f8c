"""The verbs every kind has: create, get, list, watch, update, patch, delete, and subresources.

May not live here: what differs between kinds. A verb reads the kind's descriptor and never asks
which kind it has.
"""
