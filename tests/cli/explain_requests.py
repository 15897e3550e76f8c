"""Send requests to ``holdfast explain --batch``: a line in, a line out."""

import io
import json

from holdfast.cli.explain import explain_lines


def ask_all(*requests):
    lines = [q if isinstance(q, bytes) else json.dumps(q).encode() for q in requests]
    out = io.BytesIO()
    explain_lines(lines, out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def ask(*objects, pod="default/p", **more):
    return ask_all({"objects": objects, "pod": pod, **more})[0]


def node_of(answer, name):
    return next(n for n in answer["nodes"] if n["name"] == name)


def verdicts(answer):
    """Return (plugin, code, reasons) of every infeasible node, by name."""
    return {
        n["name"]: (n["plugin"], n["code"], n["reasons"])
        for n in answer["nodes"]
        if not n["feasible"]
    }
