"""The shapes of objects: fields of the built-in kinds, structural schemas of custom resources.

Lives here: reading, pruning, defaulting and checking by a schema, merging by its list types, and
the OpenAPI documents. May not live here: rules of single kinds.
"""
