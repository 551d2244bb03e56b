"""A pytest plug-in that installs one mutant: `MUTANT=module:number pytest -p tests.mutation.plugin ...`."""

from __future__ import annotations

import os

from tests.mutation.mutants import install, mutants

_module, _, _number = os.environ["MUTANT"].partition(":")
install(mutants(_module)[int(_number)])
