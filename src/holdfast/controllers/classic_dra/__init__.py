"""Create the claims of classic DRA for pods, release them and delete them.

``plan`` is pure. ``consumers`` finds out which consumers no longer exist. ``controller`` executes
the plans and keeps pods waiting whose claims a quota refused. The claims of structured DRA are in
``controllers.resource_claim``.
"""
