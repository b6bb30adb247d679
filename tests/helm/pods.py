"""Runs the pods of a rendered chart as processes of this host, in place of a kubelet.

Volumes are made as a kubelet makes them: an emptyDir is open to all, the volume of a claim to the pod's group, and the
files of ConfigMaps and Secrets are symbolic links to a folder that is replaced as a whole. As root, the processes have
the user and groups of the pod. Paths of containers begin at a folder of the pod, and ports are those that the system
chooses. What is not there: images, the read-only root file system, limits, DNS, and everything that the API of
Kubernetes does.
"""
import base64
import math
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import chart

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from service import Program, kill_below, wait_for

ENTRYPOINTS = {"ampd-server": "ampd-server", "ampd-worker-cpu": "ampd-worker", "ampd-client": "ampctl"}
PREFIX = re.compile(r"(?<![\w/.])/(?:etc/ampd|run/ampd|var/lib/ampd|data|tmp)(?=\W|$)")


def owned(pod):
    """Returns the options of subprocess that give a process the user and groups of a pod; none if this user may not."""
    context = pod["securityContext"]
    if os.geteuid() != 0:
        return {}
    return {"user": context["runAsUser"], "group": context["runAsGroup"], "extra_groups": [context["fsGroup"]]}


class Pod:
    """One pod. `claims` maps the names of PersistentVolumeClaims to folders. `changes` maps texts in commands,
    environment and files, such as addresses, to what is there instead."""

    def __init__(self, folder, binaries, objects, owner, claims, changes):
        self.root, self.binaries, self.objects, self.owner = folder, binaries, objects, owner
        self.spec, self.claims, self.changes = chart.pod_of(owner), claims, changes
        self.group = self.spec["securityContext"]["fsGroup"]
        self.volumes = {}
        folder.mkdir()
        folder.chmod(0o755)
        (folder / "etc/ampd").mkdir(parents=True)
        shutil.copy(chart.ROOT / "docker/haproxy/haproxy.cfg", folder / "etc/ampd")  # As in the image of the proxy.
        for volume in [*self.spec["volumes"], *owner["spec"].get("volumeClaimTemplates", [])]:
            self._make_volume(volume)
        for container in chart.containers_of(self.spec):
            for mount in container["volumeMounts"]:
                path = folder / mount["mountPath"][1:]
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.is_symlink():
                    path.symlink_to(self.volumes[mount["name"]])

    def _make_volume(self, volume):
        name = volume.get("name") or volume["metadata"]["name"]
        path = self.root / "volumes" / name
        path.mkdir(parents=True)
        self.volumes[name] = path
        if "persistentVolumeClaim" in volume or "metadata" in volume:
            claim = volume.get("persistentVolumeClaim", {}).get("claimName", name)
            path.rmdir()
            path.symlink_to(self.claims[claim])
        elif "emptyDir" in volume:
            self._give(path, 0o2777)
        elif "configMap" in volume or "secret" in volume:
            path.chmod(0o755)
            self.fill(name)

    def _give(self, path, mode):
        if os.geteuid() == 0:
            os.chown(path, 0, self.group)
        path.chmod(mode)

    def fill(self, name):
        """Writes the files of the volume of a ConfigMap or Secret as they are now, and shows them to the pod at once."""
        [volume] = [one for one in self.spec["volumes"] if one["name"] == name]
        secret = volume.get("secret")
        source = chart.find(self.objects, "Secret" if secret else "ConfigMap",
                            secret["secretName"] if secret else volume["configMap"]["name"])
        files = {key: base64.b64decode(text) if secret else self.place(text).encode()
                 for key, text in source.get("data", {}).items()}
        items = (secret or volume["configMap"]).get("items")
        if items:
            files = {item["path"]: files[item["key"]] for item in items}
        path = self.volumes[name]
        fresh = path / f"..{len(list(path.iterdir()))}"
        fresh.mkdir(mode=0o755)
        for key, content in files.items():
            (fresh / key).write_bytes(content)
            # A kubelet adds what the group needs to read.
            self._give(fresh / key, (secret or volume["configMap"]).get("defaultMode", 0o644) | 0o440)
            if not (path / key).is_symlink():
                (path / key).symlink_to(f"..data/{key}")
        (path / "..link").symlink_to(fresh.name)
        (path / "..link").rename(path / "..data")

    def place(self, text):
        """Returns a text of the pod with the paths, addresses and ports of this host."""
        text = PREFIX.sub(lambda found: f"{self.root}{found[0]}", text)
        for old, new in self.changes.items():
            text = text.replace(old, new)
        return text

    def container(self, name):
        [found] = [one for one in chart.containers_of(self.spec) if one["name"] == name]
        return found

    def environment(self, name):
        container = self.container(name)
        made = {"PATH": f"{self.binaries}:/usr/sbin:{os.environ['PATH']}", "HOME": "/nonexistent"}
        for variable in container.get("env", []):
            if "value" in variable:
                made[variable["name"]] = self.place(str(variable["value"]))
            elif "resourceFieldRef" in variable["valueFrom"]:
                made[variable["name"]] = str(math.ceil(float(container["resources"]["limits"]["cpu"])))
            else:
                made[variable["name"]] = "node-1"
        return made

    def command(self, name):
        container = self.container(name)
        image = container["image"].rpartition("/")[2].partition(":")[0]
        words = [*container.get("command", [ENTRYPOINTS.get(image)]), *container.get("args", [])]
        variables = self.environment(name)
        return [re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], self.place(word)) for word in words]

    def run(self, name, seconds=120, command=None):
        """Runs a container, or a command in it, to its end. Returns the result."""
        words = [self.place(word) for word in command] if command else self.command(name)
        return subprocess.run(words, env=self.environment(name), cwd=self.root, capture_output=True, text=True,
                              timeout=seconds, check=False, stdin=subprocess.DEVNULL, **owned(self.spec))

    def start(self, name, *more, **options):
        """Starts a container, with further arguments."""
        return Program([*self.command(name), *more], self.root / f"{name}.log", env=self.environment(name),
                       cwd=self.root, start_new_session=True, **owned(self.spec), **options)

    def probe(self, name, kind, *more):
        return self.run(name, command=[*self.container(name)[kind]["exec"]["command"], *more])

    def await_probe(self, name, kind, program, *more):
        answers = []

        def passes():
            answers.append(self.probe(name, kind, *more))
            return not program.running() or answers[-1].returncode == 0
        try:
            wait_for(passes, f"{kind} of {name}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{answers[-1].stderr}\n{program.log()}") from error
        assert program.running(), program.log()


def make_claim(path, group):
    """Makes the empty volume of a claim, as a kubelet gives it to the pod's group."""
    path.mkdir()
    if os.geteuid() == 0:
        os.chown(path, 0, group)
    path.chmod(0o2775)
    return path


def listener():
    """Returns a listening socket of loopback, whose port HAProxy takes over."""
    return socket.create_server(("127.0.0.1", 0))
