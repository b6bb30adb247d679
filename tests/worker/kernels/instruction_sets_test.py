#!/usr/bin/env python3
"""Look for code that the linker would share between instruction sets. Of two definitions of an inline function it keeps
one for the whole program; if that is the AVX-512 one, the program crashes on a machine without AVX-512.

Usage: instruction_sets_test.py OBJECTS     the objects of worker_kernels_step, _attention and _pixels, separated by ';'
"""
import re
import subprocess
import sys

OBJECT = re.compile(r"(step_loops|attention|pixels)_\w+\.cc\.o$")
TABLE = re.compile(r"k(Portable|Avx2|Avx512)Kernels|kAvx512Bf16Attention|MapPixels(Portable|Avx2|Avx512)\(")


def main():
    objects = [path for path in sys.argv[1].split(";") if OBJECT.search(path)]
    if len(objects) != 7:
        sys.exit(f"expected the loops of three instruction sets, twice, and one of attention, found {objects}")
    findings = 0
    for path in objects:
        listing = subprocess.run(["nm", "-C", "--defined-only", "--extern-only", path], check=True, capture_output=True, text=True)
        symbols = [line.split(maxsplit=2)[1:] for line in listing.stdout.splitlines()]
        tables = [name for kind, name in symbols if kind in "DRT" and TABLE.search(name)]
        if len(tables) != 1:
            sys.exit(f"{path} defines {len(tables)} tables and loops: has nm read it?")
        for kind, name in symbols:
            if name not in tables:
                print(f"{path} shares {name} ({kind})")
                findings += 1
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
