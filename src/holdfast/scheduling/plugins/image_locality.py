"""ImageLocality: prefer nodes that have the pod's images, more so if many nodes do."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from holdfast.api.pod import Pod
from holdfast.scheduling.framework.plugin import (
    AnyRows,
    NodeScorer,
    Plugin,
    RawScores,
    Scope,
    Skip,
    Traits,
)
from holdfast.scheduling.framework.view import View
from holdfast.state.columns.epochs import Epoch
from holdfast.state.columns.images import Image
from holdfast.state.columns.node_table import NodeTable
from holdfast.state.columns.pod_info import PodInfo

_MIB = 1024 * 1024
MIN_SIZE = 23 * _MIB
MAX_SIZE_PER_CONTAINER = 1000 * _MIB


@dataclass(slots=True)
class ImageScores(NodeScorer):
    """Score nodes by the images of a class of pods that some node has.

    Scores are cached until those images or the number of nodes change.
    """

    nodes: NodeTable
    names: tuple[str, ...]
    images: list[Image]
    containers: int
    seen: tuple[int, int] = field(default=(-1, -1), compare=False)
    raw: RawScores = field(default_factory=lambda: np.zeros(0), compare=False)

    def score(self, rows: AnyRows) -> RawScores:
        """Sum the image sizes, scaled by the share of nodes with the image, within limits."""
        nodes = self.nodes
        version = (nodes.images.seq, nodes.epochs[Epoch.NODES])
        if self.seen != version or len(self.raw) != nodes.capacity:
            self.raw = self._compute()
            self.seen = version
        return self.raw[rows].copy()

    def _compute(self) -> RawScores:
        sums = np.zeros(self.nodes.capacity, np.int64)
        for image in self.images:
            scaled = int(image.size * (len(image.rows) / self.nodes.node_count))
            sums[list(image.rows)] += scaled
        most = MAX_SIZE_PER_CONTAINER * self.containers
        sums = np.clip(sums, MIN_SIZE, max(most, MIN_SIZE))
        scores: RawScores = (100 * (sums - MIN_SIZE) // (most - MIN_SIZE)).astype(np.float64)
        return scores


class ImageLocality(Plugin):
    """Score nodes by the size of the pod's images that they have.

    The score depends on the number of nodes and of nodes with the image, so an added node changes
    the score of all nodes.
    """

    name = "ImageLocality"
    traits = Traits(
        scope=Scope.DOMAIN,
        epochs=(Epoch.IMAGES,),
        ignores_requests=True,
        comparable_plans=True,
        accepts_slices=True,
    )
    plan_classes = (ImageScores,)

    def reads(self, pod: PodInfo, view: View) -> Hashable:
        """Return the images, and the number of containers."""
        return image_names(pod.pod), _containers(pod.pod)

    def pre_filter(self, pod: PodInfo, view: View) -> ImageScores | Skip:
        """Find the images; skip a pod if no node has any of them."""
        names = image_names(pod.pod)
        images = view.nodes.images.find(names)
        return ImageScores(view.nodes, names, images, _containers(pod.pod)) if images else Skip()


def image_names(pod: Pod) -> tuple[str, ...]:
    """Return the normalized image names of a pod, one for each use."""
    spec = pod.spec
    images = [c.image for c in (*spec.init_containers, *spec.containers)]
    images += [v.image.reference for v in spec.volumes if v.image is not None]
    return tuple(map(normalized, images))


def normalized(image: str) -> str:
    """Return an image name with its tag.

    >>> normalized("host:5000/app")
    'host:5000/app:latest'
    """
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _containers(pod: Pod) -> int:
    return len(pod.spec.init_containers) + len(pod.spec.containers)
