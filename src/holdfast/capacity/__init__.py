"""Who may use which room: reservations (offers) and resource policies (caps on node pools).

Lives here: the ledgers of promised room, who owns a reservation, what is left of it, how many
pods of a policy stand in which pool. May not live here: how a plugin words a rejection, anything
that waits or writes. The ledgers enter what they hold into the columns, so that "free" has one
meaning for everybody.

What other packages know of reservations: ``PodInfo.is_reserve_pod`` (no pod, but looks
for a node in the place of a reservation), ``World.reserve_pod_info`` (which makes it),
``View.matched_reservations``, ``unseen`` and ``lifted`` (what is held for a pod, and so not in its
way), the trait ``allocates_reservations`` and ``ClusterEvent.is_reservation_event``.
``audit`` checks what the ledger promises.
"""
