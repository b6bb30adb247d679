#!/usr/bin/env python3
"""Tests scripts/sbom on a build: the fields that SPDX 2.3 requires, that every shared library of every program is
covered, and that the same build gives the same bytes.

Usage: sbom_test.py BUILD_FOLDER.
"""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
PROGRAMS = [name for name in ("ampctl", "ampd-server", "ampd-shim", "ampd-trainer", "ampd-worker")
            if (BUILD / "bin" / name).exists()]
ID = r"SPDXRef-[A-Za-z0-9.-]+"


def sbom(*arguments, **environment):
    return subprocess.run([ROOT / "scripts" / "sbom", "--build", BUILD, "--programs", *PROGRAMS, *arguments],
                          capture_output=True, text=True, check=False, env={**os.environ, **environment})


class Sbom(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        result = sbom(SOURCE_DATE_EPOCH="1700000000")
        assert result.returncode == 0, result.stderr
        cls.text = result.stdout
        cls.document = json.loads(cls.text)
        cls.packages = {package["SPDXID"]: package for package in cls.document["packages"]}
        cls.files = {pathlib.Path(file["fileName"]).name: file for file in cls.document["files"]}

    def test_has_the_fields_that_the_format_requires(self):
        document = self.document
        self.assertEqual((document["spdxVersion"], document["dataLicense"], document["SPDXID"]),
                         ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
        self.assertRegex(document["name"], r"ampd-\d+\.\d+\.\d+")
        self.assertRegex(document["documentNamespace"], r"^https://[^#\s]+$")
        self.assertEqual(document["creationInfo"]["created"], "2023-11-14T22:13:20Z")
        self.assertTrue(all(re.match(r"(Tool|Person|Organization): ", one)
                            for one in document["creationInfo"]["creators"]))
        ids = ["SPDXRef-DOCUMENT", *self.packages, *(file["SPDXID"] for file in document["files"])]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual(len(self.packages), len(document["packages"]))
        for package in document["packages"]:
            self.assertRegex(package["SPDXID"], f"^{ID}$")
            for field in ("name", "downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText"):
                self.assertTrue(package[field], package)
            self.assertIs(package["filesAnalyzed"], False)
        for file in document["files"]:
            self.assertRegex(file["fileName"], r"^\./")
            self.assertIn("SHA1", [checksum["algorithm"] for checksum in file["checksums"]])
        for relationship in document["relationships"]:
            self.assertIn(relationship["spdxElementId"], ids)
            self.assertIn(relationship["relatedSpdxElement"], ids)
        self.assertEqual([relationship["relatedSpdxElement"] for relationship in document["relationships"]
                          if relationship["relationshipType"] == "DESCRIBES"], ["SPDXRef-ampd"])

    def test_covers_every_shared_library_of_every_program(self):
        self.assertIn("ampd-server", PROGRAMS)
        for program in PROGRAMS:
            linked = subprocess.run([BUILD / "bin" / program], capture_output=True, text=True, check=True,
                                    env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"}).stdout
            wanted = {pathlib.Path(name).name for name in re.findall(r"^\s*(\S+) (?:=>|\()", linked, re.MULTILINE)}
            wanted.discard("linux-vdso.so.1")
            self.assertIn("libc.so.6", wanted)
            listed = set()
            for relationship in self.document["relationships"]:
                if (relationship["spdxElementId"] == self.files[program]["SPDXID"] and
                        relationship["relationshipType"] == "DYNAMIC_LINK"):
                    listed.update(relationship["comment"].split(", "))
            self.assertEqual(listed, wanted, program)

    def test_has_the_versions_of_the_packages_and_the_checksums_of_the_programs(self):
        for name in ("libgrpc++1.51", "libssl3", "libsqlite3-0", "libcli11-dev"):
            version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True,
                                     check=True).stdout
            package = next(one for one in self.packages.values() if one["name"] == name)
            self.assertEqual(package["versionInfo"], version)
            self.assertIn(f"pkg:deb/debian/{name}@", package["externalRefs"][0]["referenceLocator"])
        for program in PROGRAMS:
            checksums = {one["algorithm"]: one["checksumValue"] for one in self.files[program]["checksums"]}
            content = (BUILD / "bin" / program).read_bytes()
            self.assertEqual(checksums, {"SHA1": hashlib.sha1(content).hexdigest(),
                                         "SHA256": hashlib.sha256(content).hexdigest()})

    def test_declares_a_licence_only_where_the_package_states_one(self):
        declared = {package["name"]: package["licenseDeclared"] for package in self.packages.values()}
        self.assertEqual(declared["libcli11-dev"], "BSD-3-Clause")
        self.assertEqual(declared["libzstd1"], "BSD-3-Clause OR GPL-2.0-only")
        self.assertEqual(declared["ampd"], "Apache-2.0")
        self.assertEqual(declared["libc6"], "NOASSERTION")  # Its copyright file is plain text.

    @unittest.skipUnless("ampd-trainer" in PROGRAMS, "a build without LibTorch")
    def test_has_the_torch_wheel_and_the_libraries_that_the_trainer_loads_from_it(self):
        version = re.search(r"__version__ = '([^'+]+)", (ROOT / ".deps/wheel/torch/version.py").read_text()).group(1)
        torch = self.packages["SPDXRef-wheel-torch"]
        self.assertEqual((torch["versionInfo"].split("+")[0], torch["licenseDeclared"]), (version, "BSD-3-Clause"))
        library = next(one for one in self.packages.values() if one["name"] == "libtorch_cpu.so")
        with open(ROOT / ".deps/wheel/torch/lib/libtorch_cpu.so", "rb") as content:
            self.assertEqual(library["checksums"][0]["checksumValue"],
                             hashlib.file_digest(content, "sha256").hexdigest())
        self.assertIn(("SPDXRef-wheel-torch", "CONTAINS", library["SPDXID"]),
                      [(one["spdxElementId"], one["relationshipType"], one["relatedSpdxElement"])
                       for one in self.document["relationships"]])

    def test_the_same_build_gives_the_same_bytes(self):
        self.assertEqual(sbom(SOURCE_DATE_EPOCH="1700000000").stdout, self.text)
        later = json.loads(sbom(SOURCE_DATE_EPOCH="1700000001").stdout)
        self.assertEqual(later["creationInfo"]["created"], "2023-11-14T22:13:21Z")
        self.assertEqual(later["packages"], self.document["packages"])
        self.assertNotEqual(later["documentNamespace"], self.document["documentNamespace"])

    def test_refuses_what_it_cannot_describe(self):
        for arguments, word in ((["--build", "/nowhere"], "not built"), (["--programs", "none"], "not built")):
            refused = sbom(*arguments)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(word, refused.stderr)
        self.assertIn("SOURCE_DATE_EPOCH is 'today'", sbom(SOURCE_DATE_EPOCH="today").stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
