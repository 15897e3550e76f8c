"""Resource policies (KEP-594): which pods they select, and how full their units are.

Lives here: the cache of policies with the rows of their units, and counts of pods and amounts in
each unit. May not live here: the order in which units are tried (the plugin ResourcePolicy), how a
plugin words a rejection, anything that waits or writes.
"""
