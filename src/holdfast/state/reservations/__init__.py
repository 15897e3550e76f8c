"""Reservations: their owners, what they hold on a node, and what is left of them.

Lives here: the reservation cache, and matching pods with reservations. May not live here: how a
plugin words a rejection, anything that waits or writes. What reservations hold is entered into the
node table, so that "free" has one meaning.

Other packages use: ``PodInfo.is_reserve_pod``, ``World.reserve_pod_info`` (makes a reserve pod),
``View.matched_reservations``, ``View.hidden_pods`` and ``View.reserved_for_pod`` (what is held for
a pod does not count against it), the trait ``allocates_reservations`` and
``ClusterEvent.is_reservation_event``. ``audit`` checks the invariants of the cache.
"""
