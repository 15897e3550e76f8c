"""Bytes and requests: what arrives on a connection and how it is answered, whatever it is about.

Lives here: connections and their limits, request paths and options, body formats, content
negotiation, answers. May not live here: objects, kinds and verbs.
"""
