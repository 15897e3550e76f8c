"""Connections, requests and responses, independent of kinds.

Lives here: connections and their limits, request paths and options, body formats, content
negotiation, responses. May not live here: kinds, verbs, anything about the content of objects.
"""
