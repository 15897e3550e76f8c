"""A driver of classic DRA: it gives containers a part of the memory of a simulated GPU.

python driver.py all --kubelet-dir NODE_DIRECTORY
"""

from dataclasses import dataclass, field

from holdfast.driver import Cdi, Choice, Device, Driver, Share


@dataclass
class GPURequirements:
    """What users ask for, in the parameters of a claim."""

    memory: str = "1Gi"
    shared: bool = False


@dataclass
class GPUInit:
    """What admins set, in the parameters of a class: a command for each allocation."""

    init_command: list[str] = field(default_factory=list)


driver = Driver("gpu.example.com", params=GPURequirements, class_params=GPUInit)


@driver.inventory
def inventory():
    """Return the GPUs of a node."""
    return [Device(f"gpu-{i}", {"model": "acme"}, {"memory": "8Gi"}) for i in range(2)]


@driver.fits
def fits(free, request):
    """Choose the GPU with the least memory left that is enough."""
    enough = [gpu for gpu in free if gpu.has(memory=request.memory)]
    if not enough:
        return None
    gpu = min(enough, key=lambda one: (one.capacity["memory"], one.name))
    return Choice([Share(gpu.name, {"memory": request.memory})], shared=request.shared)


@driver.allocate
def allocate(request, choice, class_params):
    """Tell the node which command initialises the GPU; a real driver might talk to hardware."""
    return {"initCommand": class_params.init_command}


@driver.prepare
def prepare(claim, devices):
    """Tell containers their GPU and how much of its memory is theirs."""
    [share] = devices
    init = " ".join(claim.handle.data["initCommand"])
    return Cdi().env(GPU=share.name, GPU_MEMORY=share.consumed_capacity["memory"], GPU_INIT=init)


if __name__ == "__main__":
    driver.run()
