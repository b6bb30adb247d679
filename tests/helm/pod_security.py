"""The Pod Security Standard `restricted`, which includes `baseline`, and what ampd demands beyond it.

The rules are those of the page "Pod Security Standards" of the documentation of Kubernetes.
"""
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
SECCOMP = {"RuntimeDefault", "Localhost"}


def _containers(pod):
    return [*pod.get("initContainers", []), *pod["containers"], *pod.get("ephemeralContainers", [])]


def restricted_findings(pod):
    """Yields what in the spec of a pod the standard forbids."""
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(key):
            yield key
    for volume in pod.get("volumes", []):
        for kind in set(volume) - {"name"} - VOLUMES:
            yield f"volume {volume['name']}: {kind}"
    context = pod.get("securityContext", {})
    for sysctl in context.get("sysctls", []):
        yield f"sysctl {sysctl['name']}"
    if "windowsOptions" in context or "seLinuxOptions" in context or "appArmorProfile" in context:
        yield "securityContext: options that this module does not judge"
    for container in _containers(pod):
        for finding in _container_findings(container, context):
            yield f"container {container['name']}: {finding}"


def _container_findings(container, of_pod):
    own = container.get("securityContext", {})
    both = of_pod | own
    if own.get("privileged"):
        yield "privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation is not false"
    if own.get("procMount", "Default") != "Default":
        yield "procMount"
    capabilities = own.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []):
        yield "does not drop ALL capabilities"
    for name in set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield f"adds the capability {name}"
    if both.get("runAsNonRoot") is not True:
        yield "runAsNonRoot is not true"
    if both.get("runAsUser") == 0:
        yield "runs as root"
    if both.get("seccompProfile", {}).get("type") not in SECCOMP:
        yield "no seccomp profile"
    for port in container.get("ports", []):
        if port.get("hostPort"):
            yield f"hostPort {port['hostPort']}"
    for key in ("seLinuxOptions", "windowsOptions", "appArmorProfile"):
        if key in own:
            yield f"{key}, which this module does not judge"


def house_findings(pod):
    """Yields what ampd demands of each pod besides."""
    if pod.get("automountServiceAccountToken") is not False:
        yield "automountServiceAccountToken is not false"
    if pod.get("enableServiceLinks") is not False:
        yield "enableServiceLinks is not false"
    for container in _containers(pod):
        if container.get("securityContext", {}).get("readOnlyRootFilesystem") is not True:
            yield f"container {container['name']}: the root file system may be written"
        if "memory" not in container.get("resources", {}).get("limits", {}):
            yield f"container {container['name']}: no limit of memory"
