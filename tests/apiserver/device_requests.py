"""Write device objects over HTTP, and read the reasons of refusals."""

from validation.device_builders import CLAIMS
from validation.device_statuses import CLAIM

INVALID, REQUIRED, FORBIDDEN, TOO_MANY, TOO_LONG, DUPLICATE = (
    f"FieldValue{word}"
    for word in ("Invalid", "Required", "Forbidden", "TooMany", "TooLong", "Duplicate")
)


async def refused(api, path, body, method="POST"):
    """Send an object that is refused; return field and reason of each error."""
    answer = await api.call(method, path, body)
    assert answer.status == 422, answer.body
    return [(cause["field"], cause["reason"]) for cause in answer.json["details"]["causes"]]


async def write_status(api, body, status):
    return await api.call(
        "PUT", f"{CLAIMS}/{body['metadata']['name']}/status", {**body, "status": status}
    )


async def created_claim(api, status=None):
    body = await api.create(CLAIMS, {**CLAIM, "metadata": {"name": "one"}})
    if status is None:
        return body
    answer = await write_status(api, body, status)
    assert answer.status == 200, answer.body
    return answer.json
