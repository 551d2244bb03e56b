"""Size of what `pip install tidegate` brings, and time to the first lint.

The wheel is built and installed with pip into an empty environment. Its size without pip is compared with that of the
environment that runs this, and the first `tidegate lint` there, before any bytecode is cached, with a Python that
does nothing. With --smoke nothing is installed: the running environment takes the place of the light one.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure, benchmark_parser, report_figures

ROOT = Path(__file__).parents[1]
CONTRACT = ROOT / "schemas" / "examples" / "admissions" / "contract.yaml"
_TOOLS = ("pip", "setuptools", "_distutils_hack", "pkg_resources")


def install(folder: Path) -> Path:
    """Build the wheel and install it into a new environment; return the environment's Python."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    venv.create(folder / "light", with_pip=True)
    python = folder / "light" / "bin" / "python"
    wheel = next(folder.glob("*.whl"))
    # Without --no-compile, pip compiles bytecode; here the first import does, so that the first lint includes it.
    options = ["--quiet", "--disable-pip-version-check", "--no-compile"]
    subprocess.run([python, "-m", "pip", "install", *options, wheel], check=True)
    return python


def megabytes(python: Path) -> float:
    """Return the size of the installed packages without pip, in megabytes."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    told = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout
    packages = (each for each in Path(told.strip()).iterdir() if not each.name.startswith(_TOOLS))
    files = (file for each in packages for file in (each.rglob("*") if each.is_dir() else [each]))
    return sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink()) / 1e6


def seconds(command: Sequence[str | Path], folder: Path) -> float:
    """Run a program in a folder; return its seconds."""
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> int:
    """Install, measure, and report the figures."""
    arguments = benchmark_parser(__doc__).parse_args()
    running = Path(sysconfig.get_path("scripts")) / "python"
    with tempfile.TemporaryDirectory(prefix="tidegate-light-") as folder:
        python = running if arguments.smoke else install(Path(folder))
        size = megabytes(python)
        lint: list[str | Path] = [python, "-m", "tidegate.gateway.cli.main", "lint", CONTRACT]
        nothing = seconds([python, "-c", ""], Path(folder))
        first = seconds(lint, Path(folder))
        figures = [
            Figure.of("light_environment", size, "MB", megabytes(running)),
            Figure.of("first_lint", first, "s", nothing),
        ]
    report_figures(figures, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
