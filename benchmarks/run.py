"""Run experiments one after another, and write their pages.

    python -m benchmarks.run                  all of them, then docs/results/
    python -m benchmarks.run --quick          small runs, pages to build/results/
    python -m benchmarks.run NAME ...         some of them
    python -m benchmarks.run --pages          only the pages, from what is known
    python -m benchmarks.run --list           what there is

Every file of papers/, speed/ and accuracy/ that has a ``main`` is an experiment. Each runs in a
process of its own, keeps its cells as they come, and goes on where it was interrupted. One that
fails does not stop the others.
"""

import argparse
import os
import subprocess
import sys
import time

from benchmarks.harness import pages
from benchmarks.harness.folders import ROOT
from benchmarks.harness.markdown_tables import table


def parse():
    known = pages.experiments()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments (all of them)")
    parser.add_argument("--data", help="folder of the data sets (or set KERNELWEAVE_DATA)")
    parser.add_argument("--quick", action="store_true", help="small runs, to see that they work")
    parser.add_argument("--fresh", action="store_true", help="forget the results of earlier runs")
    parser.add_argument("--pages", action="store_true", help="run nothing, write the pages")
    parser.add_argument("--list", action="store_true", help="say what there is, and stop")
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in known]:
        parser.error(f"no experiment {', '.join(unknown)}; there are {', '.join(known)}")
    return args, [known[name] for name in args.names or known]


def main():
    args, chosen = parse()
    if args.list:
        print(pages.overview(args.quick))
        return
    if args.data:
        os.environ["KERNELWEAVE_DATA"] = args.data
    rows, failed = [], False
    for number, experiment in enumerate(chosen, 1):
        outcome, seconds = None, None
        if not args.pages:
            print(f"== {number}/{len(chosen)} {experiment.name}", file=sys.stderr, flush=True)
            began = time.perf_counter()
            flags = ["--quick"] * args.quick + ["--fresh"] * args.fresh
            try:
                code = subprocess.run([sys.executable, "-m", experiment.module, *flags]).returncode
            except KeyboardInterrupt:
                print("interrupted; the same command goes on from here", file=sys.stderr)
                sys.exit(130)
            outcome = "ran" if code == 0 else f"FAILED ({code})"
            seconds = time.perf_counter() - began
        try:
            page = pages.write_page(experiment, args.quick)
        except subprocess.CalledProcessError:
            page, outcome = None, "FAILED to report"
        failed = failed or str(outcome).startswith("FAILED")
        rows.append([experiment.name, outcome, seconds, page and page.relative_to(ROOT)])
    pages.write_index(args.quick)
    print()
    table(["experiment", "", "seconds", "page"], rows)
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
