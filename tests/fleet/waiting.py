"""The app of the fleet's program, for the command: ``outlast worker fleet.waiting:app``."""

import os

from fleet import program

app = program.build(os.environ["FLEET_URL"], os.environ["FLEET_FOLDER"])
