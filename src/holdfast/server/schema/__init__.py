"""Schemas: fields of the built-in kinds, structural schemas of custom resources, OpenAPI.

Lives here: decoding, pruning, defaulting and validation by a schema, strategic merge, and the
OpenAPI documents. May not live here: rules of single kinds.
"""
