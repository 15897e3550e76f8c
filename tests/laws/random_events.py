"""Random events in a Harness, reproducible by their seed."""

import random


class RandomEvents:
    """Applies random events to one cluster; ``log`` lists them, for debugging."""

    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.rng = random.Random(seed)
        self.count = 0
        self.log = []

    async def apply(self, events):
        """Apply a few events at once, then settle; ``events`` has their weights."""
        for event in self.rng.choices(
            list(events), list(events.values()), k=self.rng.randint(1, 4)
        ):
            detail = await event()
            self.log.append(f"{event.__name__[1:]} {detail or ''}")
        self.log.append("-")
        await self.cluster.settle()

    async def _pass_time(self):
        seconds = self.rng.choice((0.3, 1.5, 4.0, 12.0, 40.0))
        await self.cluster.advance(seconds)
        return seconds

    async def _restart_components(self):
        await self.cluster.restart_components()

    async def _restart_everything(self):
        await self.cluster.restart()
