#!/usr/bin/env python3
"""Runs the scripts of the Debian packages with commands that only record how they are called, and reads the units."""
import configparser
import pathlib
import subprocess
import tempfile
import unittest

DEBIAN = pathlib.Path(__file__).resolve().parents[2] / "tools/packages/debian"
COMMANDS = ("adduser", "deb-systemd-helper", "deb-systemd-invoke", "deluser", "install", "pkill", "rm", "rmdir",
            "systemctl")
SERVER, WORKER = "/usr/bin/ampd-server", "/usr/lib/ampd/ampd-worker"


class PackageScripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "commands").mkdir()
        for name in COMMANDS:
            command = self.root / "commands" / name
            command.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.root}/calls"\n')
            command.chmod(0o755)

    def calls(self, script, argument, installed=()):
        """Runs a script, such as "server/postinst". Returns the calls that it makes. `installed`: the programs on the
        host, beside those of the script's package."""
        for program in installed:
            path = self.root / program.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        text = (DEBIAN / script).read_text().replace("/usr/", f"{self.root}/usr/")
        (self.root / "calls").write_text("")
        # The commands of the system are not in PATH, so nothing outside the folder changes.
        subprocess.run(["/bin/sh", "-c", text, script, argument], check=True, stdout=subprocess.DEVNULL,
                       env={"PATH": str(self.root / "commands")})
        return (self.root / "calls").read_text().splitlines()

    def units(self, calls, verb):
        return {unit for call in calls if call.startswith(f"deb-systemd-helper {verb} ") for unit in call.split()[2:]}

    def test_the_units_that_removing_masks_are_unmasked_by_installing(self):
        for package in ("server", "worker"):
            masked = self.units(self.calls(f"{package}/postrm", "remove"), "mask")
            self.assertTrue(masked)
            self.assertEqual(self.units(self.calls(f"{package}/postinst", "configure"), "unmask"), masked)

    def test_a_purge_keeps_the_user_that_the_other_package_needs(self):
        worker = "deluser --quiet --system ampd-worker"
        self.assertIn(worker, self.calls("worker/postrm", "purge"))
        self.assertIn(worker, self.calls("server/postrm", "purge"))
        self.assertNotIn(worker, self.calls("worker/postrm", "purge", installed=[SERVER]))
        self.assertNotIn(worker, self.calls("server/postrm", "purge", installed=[WORKER]))
        self.assertIn("deluser --quiet --system ampd", self.calls("server/postrm", "purge"))

    def test_services_wait_for_the_network_and_start_again_until_they_run(self):
        for unit in sorted((DEBIAN.parent / "systemd").glob("*.service")):
            with self.subTest(unit=unit.name):
                sections = configparser.ConfigParser(strict=False, interpolation=None)
                sections.read(unit)
                self.assertIn("network-online.target", sections["Unit"]["After"].split())
                self.assertIn("network-online.target", sections["Unit"]["Wants"].split())
                # systemd's own limit is five starts in ten seconds. A unit has no limit, or restarts too slowly for it.
                is_unlimited = sections["Unit"].get("StartLimitIntervalSec") == "0"
                self.assertTrue(is_unlimited or int(sections["Service"]["RestartSec"]) > 2)
                self.assertIn(sections["Service"]["Restart"], ("always", "on-failure"))


if __name__ == "__main__":
    unittest.main()
