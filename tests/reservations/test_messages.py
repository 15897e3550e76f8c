"""What the messages of a pending pod say about its reservations."""

from reservations.objects import create_each, held, node, non_owner, owner, running

EVENT = "FailedScheduling-Reservation"


async def reservation_message(cluster, name="owner"):
    """Return the part of a pod's message that is about reservations."""
    message = await cluster.why(name)
    parts = message.replace(". ", ", ").split(", ")
    return [part.strip(".") for part in parts if " Reservation(s) " in part]


async def test_each_reason_is_counted_and_the_total_comes_last(cluster):
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    await create_each(cluster, node("n1"), node("n2"))
    await create_each(
        cluster, held("closed", unschedulable=True), held("tainted", taints=[taint]),
        held("other", labels={"type": "b"}), held("fits", cpu="2", labels={"type": "a"}),
    )  # fmt: skip
    await create_each(
        cluster, owner(cpu="20", reservation_affinity={"reservationSelector": {"type": "a"}})
    )
    assert await reservation_message(cluster) == [
        "1 Reservation(s) didn't match affinity rules",
        "1 Reservation(s) is unschedulable",
        "1 Reservation(s) had untolerated taint {k: v}",
        "1 Reservation(s) for node reason that Insufficient cpu by node",
        "4 Reservation(s) matched owner total",
    ]
    [event] = [words for reason, words in await cluster.events("owner") if reason == EVENT]
    assert event == (
        "0/4 reservations are available: 1 Reservation(s) didn't match affinity rules, "
        "1 Reservation(s) is unschedulable, 1 Reservation(s) had untolerated taint {k: v}, "
        "1 Reservation(s) for node reason that Insufficient cpu by node."
    )


async def test_shortages_inside_reservations_are_reported_by_node(cluster):
    rooms = [held(name, cpu="2", allocate_policy="Restricted") for name in ("a", "b")]
    await create_each(cluster, node(), *rooms, owner(cpu="3", reservation_affinity="{}"))
    message = await cluster.why("owner")
    assert message.startswith("0/1 nodes are available: 2 Reservation(s) Insufficient cpu. ")
    assert message.endswith(", 2 Reservation(s) matched owner total")
    [event] = [words for reason, words in await cluster.events("owner") if reason == EVENT]
    assert event == "0/2 reservations are available: 2 Reservation(s) Insufficient cpu."


async def test_the_message_says_whether_a_named_reservation_was_found(cluster):
    rooms = [held(name, cpu="2", allocate_policy="Restricted") for name in ("a", "b")]
    await create_each(cluster, node(), *rooms, owner(cpu="3", reservation_affinity={"name": "a"}))
    message = await reservation_message(cluster)
    assert message[1:] == [
        "1 Reservation(s) exactly matches the requested reservation name",
        "1 Reservation(s) didn't match the requested reservation name",
        "2 Reservation(s) matched owner total",
    ]


async def test_a_required_reservation_that_does_not_exist_is_reported(cluster):
    await create_each(cluster, node(), owner(reservation_affinity="{}"))
    assert await reservation_message(cluster) == ["0 Reservation(s) matched owner total"]
    [event] = [words for reason, words in await cluster.events("owner") if reason == EVENT]
    none = "no Available reservation has the pod among its owners"
    assert event == f"0/0 reservations are available: {none}."


async def test_an_unknown_operator_in_the_affinity_is_reported_by_its_field(cluster):
    term = {"matchExpressions": [{"key": "type", "operator": "Near", "values": ["a"]}]}
    reservation_affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"reservationSelectorTerms": [term]}
    }
    await create_each(cluster, node(), held(), owner(reservation_affinity=reservation_affinity))
    message = await cluster.why("owner")
    assert "reservationSelectorTerms[0].matchExpressions[0].operator: Unsupported value" in message


async def test_an_owner_without_affinity_gets_no_event(cluster):
    await create_each(cluster, node(), held(cpu="4"), running("12"), owner(cpu="5"))
    assert (await reservation_message(cluster))[-1] == "1 Reservation(s) matched owner total"
    assert EVENT not in [reason for reason, _ in await cluster.events("owner")]


async def test_messages_of_other_pods_do_not_mention_reservations(cluster):
    await create_each(cluster, node(), held(cpu="4"), non_owner(cpu="20"))
    assert "eservation" not in await cluster.why("stranger")
