"""All engines by the name that users give. A new engine is a file of its own and one line here."""

from pmlda.engines.base import Engine
from pmlda.engines.gibbs import Gibbs
from pmlda.engines.paper import Paper
from pmlda.engines.variational import Variational
from pmlda.validate import nearest, require

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (Variational(), Gibbs(), Paper())}


def find_engine(name: object) -> Engine:
    """The engine of this name.

    >>> find_engine("gibbs").summary
    'draws from the exact posterior'
    """
    known = list(ENGINES)
    hint = nearest(name, known) if isinstance(name, str) else ""
    require(isinstance(name, str) and name in ENGINES, f"engine={name!r} is not known. {hint}Choose one of {known}.")
    return ENGINES[str(name)]
