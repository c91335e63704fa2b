"""Pictures that do not fit in memory: source → blocks → topics → maps, block by block, on this machine or a cluster.

segment.py is the way in; plan.py says what blocks there are, run.py what is done in which order, steps.py what is done
to one block, parts.py what is kept of it; result.py is what comes out.
"""

from pmlda.mosaic.result import Mosaic, load_mosaic
from pmlda.mosaic.segment import resume_mosaic, segment_mosaic

__all__ = ["Mosaic", "load_mosaic", "resume_mosaic", "segment_mosaic"]
