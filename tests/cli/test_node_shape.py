"""The values of ``--node-shape``."""

import pytest
import typer

from holdfast.cli.background import node_arguments
from holdfast.cli.node_shape import parse_node_shape
from holdfast.runtime.settings import NodeSettings, NodeShape

FULL = "cpu=16,memory=64Gi,nvidia.com/gpu=8,numa=2,koordinator-gpus=4"


def test_a_shape_is_what_it_names_and_the_default_for_the_rest():
    assert parse_node_shape(FULL) == NodeShape(
        cpu="16", memory="64Gi", extra={"nvidia.com/gpu": "8"}, numa=2, koordinator_gpus=4
    )
    assert parse_node_shape("hugepages-2Mi=1Gi,pods=10,ephemeral-storage=1Ti") == NodeShape(
        pods="10", ephemeral_storage="1Ti", extra={"hugepages-2Mi": "1Gi"}
    )


def test_a_cluster_in_the_background_gets_the_same_shape():
    settings = NodeSettings(shape=parse_node_shape(FULL))
    flags = node_arguments(settings)
    assert parse_node_shape(flags[flags.index("--node-shape") + 1]) == settings.shape
    assert "--node-shape" not in node_arguments(NodeSettings())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' is not NAME=AMOUNT, such as cpu=16"),
        ("cpu", "'cpu' is not NAME=AMOUNT"),
        ("cpu=16,", "is not NAME=AMOUNT"),
        ("cpu=", "'cpu=' is not NAME=AMOUNT"),
        ("=1", "'=1' is not NAME=AMOUNT"),
        ("cpu=1,cpu=2", "cpu is given twice"),
        ("numa=1,numa=1", "numa is given twice"),
        ("gpus=4", "'gpus' is unknown: use cpu, memory, pods, ephemeral-storage, hugepages-SIZE"),
        ("NUMA=4", "'NUMA' is unknown"),
        ("a b/c=4", "'a b/c' is not the name of a resource"),
        ("/gpu=4", "'/gpu' is not the name of a resource"),
        ("a/b/c=4", "'a/b/c' is not the name of a resource"),
        ("cpu=many", "cpu=many: quantities must match"),
        ("cpu=-1", "cpu=-1: must not be negative"),
        ("memory=1e30", "memory=1e30: is too large"),
        ("memory=99999999999999999999999999999999", "is too large"),
        ("nvidia.com/gpu=1500m", "nvidia.com/gpu=1500m: must be a whole number"),
        ("numa=0", "numa=0: must be from 1 to 8"),
        ("numa=-2", "numa=-2: must be from 1 to 8"),
        ("numa=9", "numa=9: must be from 1 to 8"),
        ("numa=²", "must be from 1 to 8"),
        ("numa=" + "9" * 5000, "must be from 1 to 8"),
        ("koordinator-gpus=65", "koordinator-gpus=65: must be from 1 to 64"),
        ("cpu=16,numa=3", "numa=3 with cpu=16: cpu must be a multiple of 6"),
        ("cpu=0,numa=1", "cpu must be a multiple of 2"),
        ("cpu=2500m,numa=1", "cpu must be a multiple of 2"),
        ("cpu=1026,numa=1", "cpu must be at most 1024"),
        ("cpu=4,memory=1,numa=2", "every NUMA node needs memory"),
    ],
)
def test_the_error_names_the_part_that_is_wrong(text, words):
    with pytest.raises(typer.BadParameter) as refused:
        parse_node_shape(text)
    assert words in refused.value.message
