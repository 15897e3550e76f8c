"""Find the offers a pod may own without asking every one of them."""

from __future__ import annotations

from collections import defaultdict

from holdfast.api.pod import Pod
from holdfast.capacity.owners import OwnerRule

_Key = tuple[str, str, str]


class OwnerIndex:
    """Maps what a rule requires (a label pair, a uid, a name) to the offers that have the rule.

    Each rule is filed under one thing every owner of it must have; rules that require nothing of
    the sort are asked every time.
    """

    def __init__(self) -> None:
        self._slots_of: dict[_Key, dict[int, None]] = defaultdict(dict)
        self._keys_of: dict[int, list[_Key]] = {}

    def add(self, slot: int, rules: tuple[OwnerRule, ...]) -> None:
        """File an offer under each of its rules."""
        keys = [_filed_under(rule) for rule in rules]
        self._keys_of[slot] = keys
        for key in keys:
            self._slots_of[key][slot] = None

    def remove(self, slot: int) -> None:
        """Take an offer out."""
        for key in self._keys_of.pop(slot, ()):
            slots = self._slots_of[key]
            slots.pop(slot, None)
            if not slots:
                del self._slots_of[key]

    def candidates(self, pod: Pod) -> list[int]:
        """Slots of the offers worth asking, each once, in the order they came."""
        found: dict[int, None] = {}
        for key in _carried_by(pod):
            if slots := self._slots_of.get(key):
                found.update(slots)
        return list(found)


def _filed_under(rule: OwnerRule) -> _Key:
    if pair := rule.label_pair:
        return ("label", *pair)
    if rule.object is not None and rule.object.uid:
        return ("uid", rule.object.uid, "")
    if rule.object is not None and rule.object.name:
        return ("name", rule.object.name, "")
    if rule.controller is not None and rule.controller.uid:
        return ("controller", rule.controller.uid, "")
    return ("", "", "")


def _carried_by(pod: Pod) -> list[_Key]:
    keys: list[_Key] = [("", "", ""), ("uid", pod.uid, ""), ("name", pod.name, "")]
    keys += [("label", key, value) for key, value in pod.metadata.labels.items()]
    keys += [("controller", ref.uid, "") for ref in pod.metadata.owner_references]
    return keys
