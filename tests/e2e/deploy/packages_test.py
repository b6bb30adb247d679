#!/usr/bin/env python3
"""Installs ampd's Debian packages in a clean Debian root as docs/operator/install.md says, with every command of the page,
upgrades them while a job trains, and purges them.

Usage: packages_test.py FOLDER_OF_BINARIES [REPORT.xml]. scripts/packages has built the packages beside that folder.
Skipped without root, mmdebstrap, systemd-nspawn or a mirror. The host gets LibTorch's wheels from a folder, which pip
downloads on this machine; AMPD_WHEELS names one that is kept for the next run.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from debian_hosts import HOME, DebianHosts, main_with_own_mounts, run
from service import wait_for
from service_case import BINARIES

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/operator/install.md"
HOST = "ampd.example.com"
UNITS = ("ampd-server", "ampd-proxy", "ampd-worker")
# What `systemd-analyze security` may say at most, from 0 (closed) to 10.
EXPOSURE = {"ampd-server": 1.5, "ampd-proxy": 2.0, "ampd-worker": 4.0}
LONG_JOB = """
name: long
model: {mlp: {hidden: [64], num_classes: 10}}
data: {train: {synthetic: {shape: [1, 28, 28], num_classes: 10, num_samples: 4096, seed: 2}}, batch_size: 128}
precision: {preset: fp32}
optimizer: {adamw: {learning_rate: 1e-3}}
train: {steps: 1000000000}
"""


def packages():
    """Returns the folder of the packages that scripts/packages has built beside the binaries."""
    folder = BINARIES.parent / "deb"
    assert len(list(folder.glob("*.deb"))) == 4, "build the packages with scripts/packages"
    return folder


def use_wheels(host):
    """Makes pip take its wheels from the folder `wheels` of root alone."""
    host.write("etc/pip.conf", f"[global]\nno-index = true\nfind-links = /{HOME}/wheels\n")


def download_wheels(folder):
    """Downloads LibTorch's wheels to the folder `wheels` below this one. Returns it."""
    wheels = pathlib.Path(os.environ.get("AMPD_WHEELS", folder)) / "wheels"
    run(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet", "--no-deps", "--require-hashes",
        "--python-version", "3.11", "--only-binary", ":all:", "--dest", wheels, "-r", ROOT / "scripts/wheels/lean.txt",
        seconds=1200)
    return wheels


class Packages(DebianHosts):
    HOSTS = {HOST: "10.77.0.1"}

    @classmethod
    def setUpClass(cls):
        cls.prepare()
        cls.newer = cls.folder / "newer"
        run("cpack", "-G", "DEB", "-B", cls.newer, "-D", "CPACK_DEBIAN_PACKAGE_RELEASE=2", cwd=BINARIES.parent)
        shutil.rmtree(cls.newer / "_CPack_Packages")
        cls.say("packages of a newer version are built")
        cls.boot([packages(), cls.newer, download_wheels(cls.folder)])
        cls.host = cls.hosts[HOST]
        use_wheels(cls.host)

    def read(self, arguments):
        return json.loads(self.host.run(f"ampctl {arguments} -o json"))

    def show(self, unit, what):
        return self.host.run(f"systemctl show --property {what} --value {unit}").strip()

    def test_install_upgrade_and_purge(self):
        self.before = self.files()
        self.open_page(PAGE)
        self.with_logs(self.steps)

    def steps(self):
        self.follow("The first job")
        self.check_the_units()
        self.follow("Who may use it")
        self.assertEqual([job["state"] for job in self.read("job list")], ["SUCCEEDED"])
        self.follow("What is where")
        self.check_that_an_upgrade_keeps_a_running_job()
        self.check_that_removing_keeps_the_data()
        self.check_that_the_server_survives_the_purge_of_its_worker()
        self.follow()
        self.check_that_nothing_is_left()

    def check_the_units(self):
        wait_for(lambda: self.host.attempt("ampctl worker list").stdout.count("READY") == 1, "the worker is ready")
        verified = self.host.attempt("systemd-analyze verify " + " ".join(f"{unit}.service" for unit in UNITS))
        ours = [line for line in verified.stderr.splitlines() if "ampd" in line]
        # HAProxy is not installed on this host.
        self.assertEqual([line for line in ours if "/usr/sbin/haproxy" not in line], [], verified.stderr)
        for unit, most in EXPOSURE.items():
            text = self.host.attempt(f"systemd-analyze security --offline=yes /lib/systemd/system/{unit}.service").stdout
            rating = float(re.search(r"Overall exposure level for .*: ([0-9.]+)", text)[1])
            print(f"  {unit}: exposure {rating}", flush=True)
            self.assertLessEqual(rating, most, text)
        for unit, user in (("ampd-server", "ampd"), ("ampd-worker", "ampd-worker")):
            self.assertEqual(self.show(unit, "ActiveState"), "active")
            owner = self.host.run(f"ps -o user:32= -p {self.show(unit, 'MainPID')}").strip()
            self.assertEqual(owner, user)
        self.assertEqual(self.host.run("stat -c '%U %a' /var/lib/ampd /var/lib/ampd-worker").split(),
                         ["ampd", "700", "ampd-worker", "700"])

    def oldest_job(self):
        job = self.read("job list")[-1]
        # A server that starts does not know how fast a job was, nor how much memory it had in the end.
        return {**job, "progress": job["progress"]["step"]}

    def check_that_an_upgrade_keeps_a_running_job(self):
        self.host.write("root/long.yaml", LONG_JOB)
        job = self.host.run("ampctl job submit -q -f long.yaml").strip()
        wait_for(lambda: int(self.read(f"job show {job}").get("progress", {}).get("step", 0)) > 0, "the first step")
        first = self.oldest_job()
        processes = {unit: self.show(unit, "MainPID") for unit in ("ampd-server", "ampd-worker")}
        trainer = self.host.run("pgrep --exact ampd-trainer").split()
        self.host.run("apt-get install -y ./newer/*.deb")
        versions = self.host.run("dpkg-query --show --showformat '${Version} ' ampd-server ampd-worker").split()
        self.assertEqual([version.rpartition("-")[2] for version in versions], ["2", "2"])
        for unit, process in processes.items():
            self.assertNotIn(self.show(unit, "MainPID"), ("0", process), f"{unit} was not started again")
        step = int(self.read(f"job show {job}")["progress"]["step"])
        wait_for(lambda: int(self.read(f"job show {job}")["progress"]["step"]) > step, "the job goes on")
        self.assertEqual(len(self.read(f"job show {job}")["attempts"]), 1)
        self.assertLessEqual(set(trainer), set(self.host.run("pgrep --exact ampd-trainer").split()))
        self.assertEqual(self.oldest_job(), first, "an older job changed")
        self.assertIn("ml=submitter", self.host.run("cat /etc/ampd/server.yaml"), "the configuration is the operator's")
        self.say("the upgrade kept the running job")

    def check_that_removing_keeps_the_data(self):
        self.host.run("apt-get remove -y ampd-server ampd-worker")
        self.assertEqual(self.host.attempt("pgrep ampd").stdout, "")
        self.host.run("apt-get install -y ./newer/ampd-server_*.deb ./newer/ampd-worker_*.deb")
        wait_for(lambda: self.host.attempt("ampctl health").returncode == 0, "the server is back")
        self.assertEqual([self.show(unit, "LoadState") for unit in UNITS], ["loaded"] * 3, "a unit is still masked")
        self.assertEqual({job["spec"]["name"] for job in self.read("job list")}, {"long", self.read("job list")[-1]["spec"]["name"]})
        self.host.run("ampctl job cancel long")
        self.say("removed and installed again, with the same jobs")

    def check_that_the_server_survives_the_purge_of_its_worker(self):
        self.host.run("apt-get purge -y ampd-worker")
        self.host.run("getent passwd ampd-worker")
        self.host.run("systemctl restart ampd-server")
        wait_for(lambda: self.host.attempt("ampctl health").returncode == 0, "the server is back")
        self.say("the worker alone was purged")

    def files(self):
        """The files of the host, but those of the kernel, of root, of other packages' logs and of apt."""
        skipped = "-path /proc -o -path /sys -o -path /dev -o -path /run -o -path /root -o -path /tmp -o -path /var/tmp " \
            "-o -path /var/cache -o -path /var/lib/apt -o -path /var/log -o -path /home"
        return set(self.host.run(f"find / \\( {skipped} \\) -prune -o -name '*ampd*' -print").split())

    def check_that_nothing_is_left(self):
        self.assertEqual(self.files() - self.before, set())
        self.assertEqual(self.host.attempt("getent passwd ampd ampd-worker").stdout, "")
        self.assertEqual(self.host.attempt("pgrep ampd").stdout, "")
        self.assertEqual(self.host.attempt("ls /etc/ampd /var/lib/ampd /var/lib/ampd-worker /run/ampd").stdout, "")
        units = subprocess.run(self.host.inside("/usr/bin/systemctl", "list-unit-files", "--no-legend", "ampd-*"),
                               capture_output=True, text=True, check=False).stdout
        self.assertEqual(units, "")
        self.say("purged without a trace")


if __name__ == "__main__":
    main_with_own_mounts()
