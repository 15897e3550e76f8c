"""Access control: credentials, authentication, RBAC roles, authorization.

May not live here: checks of written roles and bindings, which belong to their kinds.
"""
