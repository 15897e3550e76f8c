"""Access control: credentials, authentication, impersonation, RBAC roles, what a node may do.

Lives here: who a request comes from and what its user may do, with the roles that the server
creates. May not live here: checks of written roles and bindings, which belong to their kinds.
"""
