"""Groups that scikit-learn keeps for itself: without metadata routing, searches split by groups, but fit without them.

A model that is fitted there cannot know that there are groups. But searches and cross-validations clone the model they
were given, in their own process, so that cloning can look at what its callers were given.
"""

import inspect
import warnings

from sklearn import get_config

SELECTION = "sklearn.model_selection"


def warn_of_dropped_groups() -> None:
    """Warn if a caller in scikit-learn was given groups, and will not pass them on."""
    if get_config()["enable_metadata_routing"]:
        return
    frame = inspect.currentframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(SELECTION):
            given, params = frame.f_locals.get("groups"), frame.f_locals.get("params")
            if given is not None or (isinstance(params, dict) and params.get("groups") is not None):
                warnings.warn(
                    "groups were given to scikit-learn, which does not pass them on to PMLDA: all rows of a fold are "
                    "one document, and its score is not held out by halves of documents. Call "
                    "sklearn.set_config(enable_metadata_routing=True) first.",
                    UserWarning,
                    stacklevel=2,
                )
                return
        frame = frame.f_back
