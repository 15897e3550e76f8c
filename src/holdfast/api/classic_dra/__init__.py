"""The objects of classic DRA (KEP-3063): types, names, forms of pods, shadows, validation.

Lives here: everything of ``api`` that exists only for classic DRA, which Kubernetes removed in
1.32; pyproject.toml lists who may import it. May not live here: states of a claim and negotiation
(``state.classic_dra``).
"""
