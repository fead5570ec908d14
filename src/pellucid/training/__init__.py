"""The training loop, written out, and everything that listens to it.

Nothing is loaded until one of the files is imported.
"""

import os

# Threads that wait for one another give the core back; torch reads this when it is imported. Spinning in its place,
# two threads beside a busy neighbour ran 6 to 20 times slower than one.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
