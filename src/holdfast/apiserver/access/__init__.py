"""Who a client is and what it may do: credentials, authentication, roles, authorization.

May not live here: rules on writing roles and bindings, which belong to their kinds.
"""
