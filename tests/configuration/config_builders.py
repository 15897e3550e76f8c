"""Build configurations as a user would write them."""

from holdfast.runtime.errors import HoldfastError
from holdfast.scheduling.configuration.catalog import Catalog
from holdfast.scheduling.configuration.document import API_VERSION, KIND
from holdfast.scheduling.configuration.reading import read


def config(*profiles, **fields):
    head = {"apiVersion": API_VERSION, "kind": KIND}
    return head | ({"profiles": list(profiles)} if profiles else {}) | fields


def profile(name=None, *, args=None, **sets):
    """Return a profile; ``args`` maps plugins to arguments, the rest are plugin sets."""
    made = {"schedulerName": name} if name is not None else {}
    if args:
        made["pluginConfig"] = [{"name": plugin, "args": given} for plugin, given in args.items()]
    return made | ({"plugins": sets} if sets else {})


def on(*names, **weights):
    """Return a plugin set that enables plugins; combine it with ``off`` by ``|``."""
    refs = [{"name": n} for n in names] + [{"name": n, "weight": w} for n, w in weights.items()]
    return {"enabled": refs}


def off(*names):
    return {"disabled": [{"name": n} for n in names]}


def only(raw):
    """Return the only profile of a configuration."""
    (found,) = read(raw).profiles.values()
    return found


def names(profile, point):
    return [plugin.name for plugin in profile.plugins_at(point)]


def mistakes(raw, catalog=None):
    """Return every error as ``field: message``."""
    try:
        read(raw, catalog or Catalog())
    except HoldfastError as refusal:
        return [f"{cause.field}: {cause.message}" for cause in refusal.details.causes]
    return []


def wrong_args(plugin, **args):
    """Return the errors of a plugin's arguments, with field paths below them."""
    found = mistakes(config(profile(args={plugin: args})))
    return [words.removeprefix("profiles[0].pluginConfig[0].args.") for words in found]
