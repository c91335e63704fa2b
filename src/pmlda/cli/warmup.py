"""`pmlda warmup`: compile kernels now, so that no run has to."""

import warnings
from typing import Annotated

import typer

from pmlda.cli.app import app, one_line_errors, say
from pmlda.cli.talk import QuietOption, Talk, print_stage

# One family of each kind that kernels are compiled for, see LogPartition: the others of its kind need no more.
FAMILIES = ("gaussian", "poisson", "additive-poisson")


@app.command(
    epilog="""Examples:

    pmlda warmup

    pmlda warmup --engine gibbs --family poisson

    PMLDA_CACHE_DIR=/opt/pmlda pmlda warmup --all"""
)
def warmup(
    engine: Annotated[
        list[str] | None, typer.Option(help="variational, gibbs or paper; can be repeated \\[default: variational].")
    ] = None,
    family: Annotated[
        list[str] | None, typer.Option(help="As for `pmlda segment`; can be repeated \\[default: gaussian].")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All engines and families, and all features.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Compile kernels now, so that no run has to: for images of containers, or before a course."""
    with one_line_errors():
        from pmlda.engines.registry import ENGINES
        from pmlda.errors import OutputError
        from pmlda.kernels import cache

        found = cache.places()
        where = " or ".join(repr(str(folder)) for folder in cache.folders())
        if not found.is_kept:
            raise OutputError(
                f"Compiled kernels would be written to {where}, where nothing can be written. Set PMLDA_CACHE_DIR to a "
                "folder that can be."
            )
        engines = list(ENGINES) if everything else engine or ["variational"]
        families = list(FAMILIES) if everything else family or ["gaussian"]
        talk = Talk(quiet)
        for name in engines:
            for each in families:
                if not quiet:
                    print_stage(f"{each}, engine {name}")
                with talk.compiling(family=each, engine=name):
                    _fit_little(each, name)
        if everything:
            _fit_entropy()
        if not quiet:
            say(f"Compiled kernels: {found.folder}")


def _fit_little(family: str, engine: str) -> None:
    """A fit of a few words, which calls every kernel that a large one does."""
    import numpy as np

    from pmlda.estimator import PMLDA

    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (60, 1 if family == "categorical" else 3)).astype(float)
    x += rng.normal(size=x.shape) if family == "gaussian" else 1.0 if family == "gamma" else 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PMLDA(2, family=family, engine=engine, n_sweeps=20, random_state=0)
        model.fit(x, groups=np.arange(60) // 20).transform(x)


def _fit_entropy() -> None:
    """The entropy of a few pixels, a feature."""
    import numpy as np

    from pmlda.features.sonar import local_entropy

    local_entropy(np.zeros((8, 8), np.uint8), 3)
