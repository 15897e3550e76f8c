"""Claims of classic DRA: they are created for pods, released and deleted.

``plan`` is pure, ``consumers`` finds out which consumers are gone, ``controller`` carries out the
plans and lets pods that a quota refused wait. The claims of structured DRA are in
``controllers.resource_claim``.
"""
