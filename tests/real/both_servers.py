"""Send the same request to a real kube-apiserver and to the embedded server."""

import asyncio
import json
import re
import ssl
import urllib.error
import urllib.request

from holdfast.api.validation.json_fields import without_empty

TEST = "?dryRun=All&fieldValidation=Strict"
_PRINTED = re.compile(r"^(Invalid|Duplicate) value: (\{.*\}|\[.*\]|null): ")
"""Go prints structs with the names of its own fields."""
_COMPILER = re.compile(r"compilation failed: .*", re.DOTALL)
"""The two CEL compilers have their own texts."""


async def send_to_both(plane, embedded, method, path, body=None, **headers):
    status, real = await asyncio.to_thread(send, plane, method, path, body, **headers)
    answer = await embedded.call(method, path, body, headers=headers)
    return (status, real), (answer.status, answer.json)


def refused_fields(answer):
    """Return field and reason of every cause; without the remark that rules were not evaluated."""
    causes = answer["details"]["causes"]
    return {(cause["field"], cause["reason"]) for cause in causes if cause["field"] != "<nil>"}


def errors(answer):
    """Return field, reason and message of every cause, in a fixed order: Go's maps have none."""
    return sorted(
        (cause.get("field", ""), cause["reason"], _comparable(cause["message"]))
        for cause in answer.get("details", {}).get("causes", ())
    )


def _comparable(message):
    return _COMPILER.sub("compilation failed", _PRINTED.sub(r"\1 value: ", message))


def without_times(value):
    """Return JSON without the times that the servers set."""
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k != "timeAdded"}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def answered(answer, part):
    """Return what two servers must agree in: errors, or one part of the stored object."""
    code, body = answer
    return (
        (code, errors(body))
        if code >= 400
        else (code, without_empty(without_times(body.get(part))))
    )


def send(plane, method, path, body=None, **headers):
    """Send a request to the real API server; return its status and body."""
    request = urllib.request.Request(
        plane.url + path,
        data=None if body is None else json.dumps(body).encode(),
        method=method,
        headers={
            "Authorization": f"Bearer {plane.token}",
            "Content-Type": "application/json",
            **headers,
        },
    )
    try:
        context = ssl._create_unverified_context()
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.loads(refusal.read())


class Servers:
    """Both servers; each request goes to both."""

    def __init__(self, plane, embedded):
        self.plane, self.embedded = plane, embedded

    async def send(self, method, path, body=None):
        """Return both answers, each as status and body."""
        return await self.real(method, path, body), await self.ours(method, path, body)

    async def real(self, method, path, body=None):
        return await asyncio.to_thread(send, self.plane, method, path, body)

    async def ours(self, method, path, body=None):
        answer = await self.embedded.call(method, path, body)
        return answer.status, answer.json


def causes(answer):
    return sorted(
        (cause["field"], cause["reason"], cause["message"])
        for cause in answer["details"].get("causes", ())
    )
