#!/usr/bin/env python3
"""A pipeline of Kubeflow with one step, which submits a job to ampd, waits until it has ended, and keeps its result.

Usage: pipeline.py IMAGE OUTPUT.yaml, where IMAGE is the reference of the image ampd-client. It needs
`pip install kfp[kubernetes]`. README.md in this folder explains it; pipeline.yaml is what it compiles for the image
ampd-client:VERSION.
"""
import sys

from kfp import compiler, dsl, kubernetes

SECRET = "ampd-pipelines"  # Has the keys token and ca.crt.
FOLDER = "/etc/ampd/pipelines"
# The arguments are the job file's text, the id of the run, and the files for the outputs job_id and result. The script
# ends with the exit code of `ampctl job wait` unless the job succeeds. A repeated step finds its job by the request id.
SCRIPT = """\
set -eu
ampd() { ampctl --token-file "$AMPD_FOLDER/token" "$@"; }
mkdir -p "$(dirname "$3")" "$(dirname "$4")"
id=$(printf '%s\\n' "$1" | ampd job submit -q -f - --request-id "kubeflow-$2")
printf '%s' "$id" >"$3"
ampd job wait "$id" --retry-for 10m
ampd job show "$id" -o json >"$4"
"""


def make(image):
    """Returns the pipeline, whose step runs in this image."""
    @dsl.container_component
    def train(job: str, run: str, job_id: dsl.OutputPath(str), result: dsl.Output[dsl.Artifact]):
        return dsl.ContainerSpec(image=image, command=["sh", "-c", SCRIPT, "train"],
                                 args=[job, run, job_id, result.path])

    @dsl.pipeline(name="ampd-train", description="Trains a job with ampd. `job` is the text of a job file.")
    def pipeline(job: str):
        task = train(job=job, run=dsl.PIPELINE_JOB_ID_PLACEHOLDER)
        task.set_caching_options(False)  # Each run trains.
        task.set_cpu_request("10m").set_cpu_limit("1").set_memory_request("64Mi").set_memory_limit("256Mi")
        task.set_env_variable("AMPD_ADDRESS", "ampd.ml.svc:7443")
        task.set_env_variable("AMPD_CA", f"{FOLDER}/ca.crt")
        task.set_env_variable("AMPD_FOLDER", FOLDER)
        kubernetes.use_secret_as_volume(task, secret_name=SECRET, mount_path=FOLDER)
        kubernetes.set_security_context(task, run_as_user=10001, run_as_group=10001, run_as_non_root=True)
    return pipeline


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    compiler.Compiler().compile(make(sys.argv[1]), sys.argv[2])
