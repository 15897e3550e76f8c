"""ResourceQuota: what an object charges, and whether a write fits into the quotas.

Lives here: the usage of pods, services, volume claims and resource claims, object counts, scopes,
the check of a write against quotas, and whether a changed quota may have room. The API server uses
it for admission, the controller to count again, the scheduler to try pods again. May not live here:
I/O, clocks, the store.
"""
