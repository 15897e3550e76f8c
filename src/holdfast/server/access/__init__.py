"""Access control: credentials, authentication, impersonation, RBAC roles, rights of nodes.

Lives here: code that finds the user of a request and decides what that user may do, and the roles
that the server creates. May not live here: checks of roles and bindings in requests, which belong
to their kinds.
"""
