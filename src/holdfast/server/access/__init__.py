"""Access control: credentials, authentication, impersonation, RBAC roles, what a node may do.

May not live here: checks of written roles and bindings, which belong to their kinds.
"""
