"""Which nodes a node selector or a pod's node affinity chooses.

Terms are compiled once and then asked for any number of nodes, given as labels and a name. A term
with a mistake matches nothing; its causes are kept, because upstream reports them only when no
other term matches (``NodeTerms.mistakes``), while validation wants them at once (``strict``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.api import labels as label_selection
from holdfast.api.causes import child, invalid, not_supported, refuse
from holdfast.api.fields import FieldRequirement, FieldSelector
from holdfast.api.labels import EVERYTHING, NOTHING, LabelRequirement, Selector
from holdfast.api.meta import Requirement
from holdfast.api.pod import NodeSelector, NodeSelectorTerm, Pod, PreferredNode
from holdfast.errors import Cause

_OPERATORS = {
    "In": label_selection.IN, "NotIn": label_selection.NOT_IN,
    "Exists": label_selection.EXISTS, "DoesNotExist": label_selection.ABSENT,
    "Gt": label_selection.GREATER, "Lt": label_selection.LESS,
}  # fmt: skip
NAME_FIELD = "metadata.name"
UNKNOWN_FIELD = ""
"""What every field of a node but its name reads as, as in upstream."""
Labels = Mapping[str, str]


def compile_expressions(
    expressions: Iterable[Requirement], path: str = ""
) -> tuple[Selector, list[Cause]]:
    """Compile label expressions and list their mistakes; no expression matches nothing."""
    found: list[LabelRequirement] = []
    causes: list[Cause] = []
    for i, expression in enumerate(expressions):
        at = f"{path}[{i}]"
        operator = _OPERATORS.get(expression.operator)
        if operator is None:
            causes.append(not_supported(child(at, "operator"), expression.operator, _OPERATORS))
            continue
        causes += label_selection.check(expression.key, operator, expression.values, at)
        values = tuple(sorted(set(expression.values)))
        found.append(LabelRequirement(expression.key, operator, values))
    if causes or not found:
        return NOTHING, causes
    return label_selection.conjunction(found), causes


def _compile_fields(
    expressions: Iterable[Requirement], path: str
) -> tuple[FieldSelector, list[Cause]]:
    found: list[FieldRequirement] = []
    causes: list[Cause] = []
    for i, expression in enumerate(expressions):
        at = f"{path}[{i}]"
        if expression.operator not in ("In", "NotIn"):
            where = child(at, "operator")
            causes.append(not_supported(where, expression.operator, ("In", "NotIn")))
        elif len(expression.values) != 1:
            where = child(at, "values")
            causes.append(invalid(where, list(expression.values), "must have one element"))
        else:
            equal = expression.operator == "In"
            found.append(FieldRequirement(expression.key, expression.values[0], equal))
    return FieldSelector(tuple(found)), causes


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One compiled term: labels and fields, both of which must match."""

    labels: Selector
    fields: FieldSelector
    mistakes: tuple[Cause, ...] = ()

    def matches(self, labels: Labels, name: str) -> bool:
        """Tell whether a node is chosen; a node without a name passes every field."""
        if self.mistakes or not self.labels.matches(labels):
            return False
        return not name or self.fields.matches(
            lambda path: name if path == NAME_FIELD else UNKNOWN_FIELD
        )


def compile_term(term: NodeSelectorTerm, path: str = "") -> NodeTerm:
    """Compile one non-empty term, fields named below ``path``."""
    chosen = EVERYTHING
    causes: list[Cause] = []
    if term.match_expressions:
        chosen, causes = compile_expressions(
            term.match_expressions, child(path, "matchExpressions")
        )
    fields, wrong = _compile_fields(term.match_fields, child(path, "matchFields"))
    return NodeTerm(chosen, fields, (*causes, *wrong))


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


@dataclass(frozen=True, slots=True)
class NodeTerms:
    """Compiled terms of a node selector, ORed; no term matches no node."""

    terms: tuple[NodeTerm, ...]

    def matches(self, labels: Labels, name: str) -> bool:
        """Tell whether any term chooses the node."""
        return any(term.matches(labels, name) for term in self.terms)

    @property
    def mistakes(self) -> tuple[Cause, ...]:
        """What is wrong in any of the terms."""
        return tuple(cause for term in self.terms for cause in term.mistakes)


def compile_selector(selector: NodeSelector, path: str = "") -> NodeTerms:
    """Compile a node selector; a term with a mistake chooses no node."""
    at = child(path, "nodeSelectorTerms")
    return NodeTerms(
        tuple(
            compile_term(term, f"{at}[{i}]")
            for i, term in enumerate(selector.node_selector_terms)
            if not _is_empty(term)
        )
    )


@dataclass(frozen=True, slots=True)
class RequiredNodes:
    """What a pod demands of its node: ``nodeSelector`` and required affinity together."""

    labels: Selector = EVERYTHING
    terms: NodeTerms | None = None

    def matches(self, labels: Labels, name: str) -> bool:
        """Tell whether the pod may run on the node."""
        return self.labels.matches(labels) and (
            self.terms is None or self.terms.matches(labels, name)
        )

    @property
    def everything(self) -> bool:
        """Whether the pod demands nothing."""
        return self.labels.everything and self.terms is None


def required_nodes(pod: Pod) -> RequiredNodes:
    """Compile a pod's node selector and required node affinity."""
    labels = label_selection.from_labels(pod.spec.node_selector)
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    needed = affinity and affinity.required_during_scheduling_ignored_during_execution
    return RequiredNodes(labels, compile_selector(needed) if needed else None)


@dataclass(frozen=True, slots=True)
class PreferredNodes:
    """Weighted terms; a node's score is the sum of the weights of those it matches."""

    terms: tuple[tuple[int, NodeTerm], ...] = ()

    def score(self, labels: Labels, name: str) -> int:
        """Sum up the weights of the terms that choose the node."""
        return sum(weight for weight, term in self.terms if term.matches(labels, name))


def compile_preferred(preferred: Iterable[PreferredNode], path: str = "") -> PreferredNodes:
    """Compile wishes, leaving out those without weight or content; refuse mistakes."""
    terms = tuple(
        (wish.weight, compile_term(wish.preference, f"{path}[{i}]"))
        for i, wish in enumerate(preferred)
        if wish.weight and not _is_empty(wish.preference)
    )
    refuse(cause for _, term in terms for cause in term.mistakes)
    return PreferredNodes(terms)


def preferred_nodes(pod: Pod) -> PreferredNodes:
    """Compile a pod's preferred node affinity."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None:
        return PreferredNodes()
    return compile_preferred(affinity.preferred_during_scheduling_ignored_during_execution)
