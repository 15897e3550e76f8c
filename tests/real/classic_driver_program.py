"""A classic driver for the tests on a real control plane: boards with memory on a node."""

from dataclasses import dataclass

from holdfast.driver import Cdi, Choice, Device, Driver


@dataclass
class BoardRequest:
    """Parameters of a claim."""

    boards: int = 1


driver = Driver("board.example.com", params=BoardRequest)


@driver.inventory
def inventory():
    return [Device(f"board-{i}") for i in range(4)]


@driver.fits
def fits(free, request):
    names = [device.name for device in free]
    if len(names) < request.boards:
        return None
    return Choice(names[: request.boards], data={"boards": request.boards}, shared=True)


@driver.allocate
def allocate(request, choice, class_params, claim):
    return {**choice.data, "order": claim.uid}


@driver.release
def release(handle):
    print(f"released {handle.name}", *handle.data, handle.data["order"] == handle.uid, flush=True)


@driver.prepare
def prepare(claim, devices):
    return Cdi().env(BOARDS=",".join(device.name for device in devices), CLAIM=claim.name)


@driver.unprepare
def unprepare(claim, devices):
    print(f"unprepared {claim.name}", flush=True)


if __name__ == "__main__":
    driver.run()
