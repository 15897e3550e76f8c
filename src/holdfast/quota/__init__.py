"""ResourceQuota: what an object charges, and whether a write fits into the quotas.

Lives here: the usage of pods, services, volume claims and resource claims, object counts, scopes,
and the check of a write against quotas. The API server uses it for admission, the controller to
count again. May not live here: I/O, clocks, the store.
"""
