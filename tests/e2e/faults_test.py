#!/usr/bin/env python3
"""Tests trainers without disk space, without the memory that they ask for, or with numbers that are not finite. The
job gets a typed reason and one line of advice, and the same worker finishes the next job. As root the test mounts
small file systems; other users get limits and file modes in their place.

Usage: faults_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import contextlib
import os
import subprocess

from service import Service, below, wait_for
from service_case import BINARIES, JOB, ServiceCase, main


@contextlib.contextmanager
def mounted(folder, options):
    """Mounts a private tmpfs at the folder while the context lasts. Yields False if this user may not mount."""
    result = subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0700,{options}", "ampd-test", folder],
                            capture_output=True, check=False)
    try:
        yield result.returncode == 0
    finally:
        if result.returncode == 0:
            subprocess.run(["umount", "-l", folder], check=True)


def fill(path):
    """Uses up all free space of the path's file system."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


class TrainerFaults(ServiceCase):
    def test_a_full_disk_under_the_checkpoints(self):
        # The weights of this job, 1.5 MB, do not fit onto the disk; those of the next job do.
        large = JOB.replace("hidden: 16", "hidden: 1024")
        with Service(BINARIES) as service:
            root = service.folder / "small-disk"
            root.mkdir()
            with mounted(root, "size=512k") as is_small:
                # Without a mount, a limit on file sizes replaces the small disk; it gives an error instead of a signal.
                limits = "" if is_small else "trap '' XFSZ; ulimit -f 1024"
                worker = service.start_worker(flags=["--checkpoint-root", root], limits=limits)
                reason, why = ("DISK_FULL", "free space") if is_small else ("CHECKPOINT_ERROR", "too large")
                final = self.expect_failure(service, service.submit(large), reason, "checkpoint of step 5", why)
                self.assertFalse(list(root.glob(f"{final['id']}/*/*")), "half a checkpoint was left")
                self.assertTrue(worker.agent.running())
                worker.kill()

    def test_a_full_disk_under_the_agents_state(self):
        with Service(BINARIES) as service:
            state = service.folder / "w1"
            state.mkdir()
            with mounted(state, "size=1m") as is_small:
                if not is_small:
                    self.skipTest("this user may not mount, and nothing else fills a disk for agent and shim alike")
                worker = service.start_worker(flags=["--no-warm", "--checkpoint-root", service.folder / "checkpoints"])
                job = service.submit(JOB.replace("steps: 5", "steps: 2000"))
                wait_for(lambda: int(service.job(job).get("progress", {}).get("step", 0)) > 0, "the first step")
                fill(state / "filling")
                final = service.finished(job)
                self.assertEqual(final["state"], "SUCCEEDED", final.get("message"))
                # The worker frees the device even though the disk is full.
                wait_for(lambda: not list((state / "spawn").iterdir()), "nothing is left of the trainer's folder")
                wait_for(lambda: len(below(service.folder)) == 2, "server and agent are left")
                fill(state / "filling-more")
                failed = service.submit(JOB)
                service.finished(failed)
                (state / "filling").unlink()
                self.expect_failure(service, failed, "DISK_FULL", "can't start a trainer", "space")
                self.assertTrue(worker.agent.running())
                worker.kill()

    def test_a_checkpoint_folder_that_cannot_be_written(self):
        with Service(BINARIES) as service:
            root = service.folder / "read-only"
            root.mkdir()
            with mounted(root, "size=8m") as is_mounted:
                def allow(write):
                    if is_mounted:
                        subprocess.run(["mount", "-o", f"remount,{'rw' if write else 'ro'}", root], check=True)
                    elif os.geteuid() != 0:
                        root.chmod(0o700 if write else 0o500)
                    elif write:
                        root.unlink()
                        root.mkdir()
                    else:
                        # File modes do not stop root from writing, so a file takes the folder's place.
                        root.rmdir()
                        root.write_text("")

                worker = service.start_worker(flags=["--checkpoint-root", root])
                # The worker tries to write the folder when it starts.
                wait_for(lambda: "accepted this worker" in worker.agent.log(), "the worker is ready")
                allow(write=False)
                failed = service.submit(JOB)
                service.finished(failed)
                allow(write=True)
                self.expect_failure(service, failed, "CHECKPOINT_ERROR", "checkpoint of step 5", "be able to write")
                worker.kill()

    def test_a_deleted_job_leaves_no_files_though_nobody_was_there(self):
        with Service(BINARIES) as service:
            worker = service.start_worker()
            job = service.submit(JOB)
            self.assertEqual(service.finished(job)["state"], "SUCCEEDED")
            folder = worker.checkpoints / job
            # Files that a trainer leaves if it is killed while it saves, or before it reports the saved checkpoint.
            for left in (".step-4.tmp", "step-3"):
                (folder / "1" / left).mkdir()
                (folder / "1" / left / "model.safetensors").write_text("left over")
            worker.kill()
            code, _, err = service.ampctl("job", "delete", "--yes", job)
            self.assertEqual(code, 0, err)
            service.server.kill()
            service.start_server()
            self.assertTrue((folder / "1" / ".step-4.tmp").exists())
            worker.start()
            wait_for(lambda: not folder.exists(), "the job's folder is gone")
            self.assertEqual(list(worker.checkpoints.iterdir()), [])
            self.expect_success(service)

    def test_a_loss_that_is_not_finite(self):
        with Service(BINARIES) as service:
            service.start_worker()
            job = JOB.replace("learning_rate: 1e-3", "learning_rate: 1e+6").replace("steps: 5", "steps: 200")
            final = self.expect_failure(service, service.submit(job), "NONFINITE_LOSS", "not finite",
                                        "lower the learning rate")
            self.assertEqual(final["numAttempts"], 1, "what will not heal was tried again")

    def test_no_memory_for_a_batch(self):
        # For one batch, the output of the second convolution alone takes 13 GB.
        large = JOB.replace("widths: [4, 8]", "widths: [64, 512]").replace("num_samples: 256", "num_samples: 16384")
        large = large.replace("batch_size: 32", "batch_size: 16384")
        with Service(BINARIES) as service:
            service.start_worker(limits="ulimit -v 8000000")
            final = self.expect_failure(service, service.submit(large), "OUT_OF_MEMORY", "no memory for another", "bytes",
                                        "smaller data.batch_size")
            self.assertEqual(final["numAttempts"], 1, "what will not heal was tried again")

    def test_no_memory_for_the_data(self):
        large = JOB.replace("num_samples: 256", "num_samples: 1000000")  # 3 GB
        with Service(BINARIES) as service:
            service.start_worker(limits="ulimit -v 3000000")
            self.expect_failure(service, service.submit(large), "OUT_OF_MEMORY", "no memory for another", "data set")


if __name__ == "__main__":
    main()
