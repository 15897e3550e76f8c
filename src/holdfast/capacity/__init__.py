"""Who may use which room: reservations (offers) and resource policies (caps on node pools).

Lives here: the ledgers of promised room, who owns a reservation, what is left of it, how many
pods of a policy stand in which pool. May not live here: how a plugin words a rejection, anything
that waits or writes. The ledgers enter what they hold into the columns, so that "free" has one
meaning for everybody.
"""
