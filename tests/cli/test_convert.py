"""``holdfast convert``: files in, YAML out, or one error and nothing else."""

import io
import sys

import pytest
import yaml

from holdfast.cli.classic_dra.convert_command import convert_files
from holdfast.runtime.errors import BadRequest

STORY = """
apiVersion: core.k8s.io/v1
kind: ResourceClass
metadata: {name: acme}
driverName: acme.example.com
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: &meta {name: web, labels: {app: web}}
  spec: &spec
    containers: [{name: a, resources: {claims: [gpu]}}]
    resourceClaims: [{name: gpu, template: {resourceClassName: acme}}]
- {apiVersion: v1, kind: PodTemplate, metadata: *meta, template: {metadata: *meta, spec: *spec}}
"""


def test_objects_of_files_and_lists_become_documents(tmp_path, capsys, monkeypatch):
    path = tmp_path / "story.yaml"
    path.write_text(STORY)
    convert_files([str(path)], "holdfast")
    out, notes = capsys.readouterr()
    assert "&" not in out
    one, pod, template = yaml.safe_load_all(out)
    assert one["apiVersion"] == "dra.holdfast.dev/v1alpha1"
    for spec in (pod["spec"], template["template"]["spec"]):
        assert spec["schedulerName"] == "holdfast"
    assert pod["spec"]["resourceClaims"][0]["resourceClaimName"] == "web-gpu-shadow"
    assert "resourceClaims" not in template["template"]["spec"]
    assert notes.splitlines()[1:] == [f"  {path}, document 2, items[1] (PodTemplate web): template"]
    monkeypatch.setattr("sys.stdin", io.StringIO(out))
    convert_files(["-"], "holdfast")
    assert capsys.readouterr().out == out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (STORY.replace("claims: [gpu]", "claims: [card]"),
         "document 2, items[0] (Pod web): spec.containers[0].resources.claims[0]: Not found"),
        ("[1]", "document 1"),
        ("kind: {", "neither YAML nor JSON"),
        ("\x00", "neither YAML nor JSON"),
        ("[" * 400_000, "nested too deeply"),
        ("a: " + "[" * 3000 + "]" * 3000,
         "nested too deeply" if sys.version_info < (3, 13) else "nested more than 100 levels"),
    ],
)  # fmt: skip
def test_an_error_names_the_object_and_nothing_is_printed(tmp_path, capsys, text, message):
    path = tmp_path / "story.yaml"
    path.write_text(text)
    with pytest.raises(BadRequest) as error:
        convert_files([str(path)], "")
    assert message in str(error.value)
    assert capsys.readouterr().out == ""
    with pytest.raises(BadRequest, match="cannot read"):
        convert_files([str(tmp_path / "absent.yaml")], "")
