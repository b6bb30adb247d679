#!/usr/bin/env python3
"""Runs workers in allocations of Debian's Slurm as docs/operator/slurm.md says, with every command of the page: a job is
trained until the allocation's time limit, and goes on in the next allocation without losing a step.

Usage: slurm_test.py FOLDER_OF_BINARIES [REPORT.xml]. As packages_test.py, whose packages it installs. Slurm's controller
and its only node are one host.
"""
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from debian_hosts import DebianHosts, main_with_own_mounts
from packages_test import LONG_JOB, download_wheels, packages, use_wheels
from service import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/operator/slurm.md"
HOST = "slurm"
ALLOCATION_SECONDS = 300
CONFIGURATION = f"""
ClusterName=test
SlurmctldHost={HOST}
AuthType=auth/munge
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
ReturnToService=2
NodeName={HOST} CPUs=2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm(DebianHosts):
    HOSTS = {HOST: "10.77.0.1"}

    @classmethod
    def setUpClass(cls):
        cls.prepare()
        cls.boot([packages(), download_wheels(cls.folder)])
        cls.host = cls.hosts[HOST]
        use_wheels(cls.host)
        cls.host.write("etc/slurm/slurm.conf", CONFIGURATION)
        cls.host.run("apt-get update; apt-get install -y ./deb/*.deb slurm-wlm; ampd-install-libtorch")
        cls.host.run("install -d -o slurm -g slurm /var/lib/slurm/slurmctld /var/lib/slurm/slurmd; "
                     "systemctl restart munge slurmctld slurmd; useradd --create-home --shell /bin/bash alice")
        wait_for(lambda: "idle" in cls.host.attempt("sinfo --noheader --format %T").stdout, "the node is idle", 120)
        cls.say("Slurm runs")

    def read(self, arguments):
        return json.loads(self.host.run(f"ampctl {arguments} -o json"))

    def test_a_job_outlives_its_allocation(self):
        self.open_page(PAGE)
        self.with_logs(self.steps)

    def steps(self):
        self.follow("What happens at the time limit")
        wait_for(lambda: "READY" in self.host.run("ampctl worker list"), "the worker of the allocation", 120)
        self.host.write("root/long.yaml", LONG_JOB)
        job = self.host.run("ampctl job submit -q -f long.yaml").strip()
        wait_for(lambda: int(self.read(f"job show {job}").get("progress", {}).get("step", 0)) > 0, "the first step")
        began = time.monotonic()
        wait_for(lambda: self.read(f"job show {job}")["state"] == "QUEUED", "the worker is drained", ALLOCATION_SECONDS)
        print(f"  drained {time.monotonic() - began:.0f} s after the first step", flush=True)
        shown = self.read(f"job show {job}")
        left, saved = shown["attempts"][0], shown["checkpoints"][-1]
        self.assertEqual((left["state"], left["outcome"]["reason"]), ("ENDED", "WORKER_DRAINED"), left)
        self.assertEqual(int(saved["step"]), int(left["outcome"]["lastStep"]), "a step was lost")
        wait_for(lambda: self.host.run("squeue --noheader") == "", "the allocation ends", ALLOCATION_SECONDS)
        log = self.host.run("cat /home/alice/slurm-*.out")
        self.assertNotIn("TIME LIMIT", log, "the worker ended before Slurm ended it")
        self.assertEqual(self.host.attempt("pgrep ampd-trainer").stdout, "")
        self.host.run("export AMPD_SERVER=unix:/run/ampd/ampd.sock AMPD_TOKEN_FILE=$HOME/slurm.token\n"
                      "export AMPD_CHECKPOINTS=/srv/ampd\nsbatch --time=10 ampd-worker.sbatch", "alice")
        wait_for(lambda: int(self.read(f"job show {job}").get("progress", {}).get("step", 0)) > int(saved["step"]),
                 "the job goes on in the next allocation", 120)
        second = self.read(f"job show {job}")["attempts"][1]
        self.assertNotEqual(second["worker"], left["worker"])
        self.assertEqual(int(second["fromStep"]), int(saved["step"]))
        self.host.run(f"ampctl job cancel {job}; scancel --name ampd-worker")
        wait_for(lambda: self.host.run("squeue --noheader") == "", "the cancelled allocation ends", 120)


if __name__ == "__main__":
    main_with_own_mounts()
