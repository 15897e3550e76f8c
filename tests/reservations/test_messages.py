"""What a pod is told about its reservations when it fits nowhere."""

from reservations.rooms import filler, given, held, node, owner, stranger

EVENT = "FailedScheduling-Reservation"


async def summed_up(cluster, name="owner"):
    """The part of a pod's message that speaks of reservations."""
    message = await cluster.why(name)
    parts = message.replace(". ", ", ").split(", ")
    return [part.strip(".") for part in parts if " Reservation(s) " in part]


async def test_each_ground_is_counted_and_the_total_comes_last(cluster):
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    await given(cluster, node("n1"), node("n2"))
    await given(
        cluster, held("closed", unschedulable=True), held("tainted", taints=[taint]),
        held("other", labels={"type": "b"}), held("fits", cpu="2", labels={"type": "a"}),
    )  # fmt: skip
    await given(cluster, owner(cpu="20", wish={"reservationSelector": {"type": "a"}}))
    assert await summed_up(cluster) == [
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


async def test_what_is_short_inside_reservations_is_told_by_the_nodes(cluster):
    rooms = [held(name, cpu="2", allocate_policy="Restricted") for name in ("a", "b")]
    await given(cluster, node(), *rooms, owner(cpu="3", wish="{}"))
    told = await cluster.why("owner")
    assert told.startswith("0/1 nodes are available: 2 Reservation(s) Insufficient cpu. ")
    assert told.endswith(", 2 Reservation(s) matched owner total")
    [event] = [words for reason, words in await cluster.events("owner") if reason == EVENT]
    assert event == "0/2 reservations are available: 2 Reservation(s) Insufficient cpu."


async def test_a_name_is_told_whether_it_was_found(cluster):
    rooms = [held(name, cpu="2", allocate_policy="Restricted") for name in ("a", "b")]
    await given(cluster, node(), *rooms, owner(cpu="3", wish={"name": "a"}))
    told = await summed_up(cluster)
    assert told[1:] == [
        "1 Reservation(s) exactly matches the requested reservation name",
        "1 Reservation(s) didn't match the requested reservation name",
        "2 Reservation(s) matched owner total",
    ]


async def test_who_must_use_a_reservation_and_has_none_is_told_so(cluster):
    await given(cluster, node(), owner(wish="{}"))
    assert await summed_up(cluster) == ["0 Reservation(s) matched owner total"]
    [event] = [words for reason, words in await cluster.events("owner") if reason == EVENT]
    none = "no Available reservation has the pod among its owners"
    assert event == f"0/0 reservations are available: {none}."


async def test_a_wish_with_an_unknown_operator_is_told_by_its_field(cluster):
    term = {"matchExpressions": [{"key": "type", "operator": "Near", "values": ["a"]}]}
    wish = {"requiredDuringSchedulingIgnoredDuringExecution": {"reservationSelectorTerms": [term]}}
    await given(cluster, node(), held(), owner(wish=wish))
    told = await cluster.why("owner")
    assert "reservationSelectorTerms[0].matchExpressions[0].operator: Unsupported value" in told


async def test_an_owner_without_affinity_is_told_without_an_event(cluster):
    await given(cluster, node(), held(cpu="4"), filler("12"), owner(cpu="5"))
    assert (await summed_up(cluster))[-1] == "1 Reservation(s) matched owner total"
    assert EVENT not in [reason for reason, _ in await cluster.events("owner")]


async def test_strangers_hear_nothing_of_reservations(cluster):
    await given(cluster, node(), held(cpu="4"), stranger(cpu="20"))
    assert "eservation" not in await cluster.why("stranger")
