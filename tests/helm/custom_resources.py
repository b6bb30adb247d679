"""Strict schemas of the objects that the chart and examples/kubernetes make beside those of Kubernetes, with the fields
that they may use. They follow the API definitions of the Prometheus operator, cert-manager, the Gateway API, Kueue and
Kubeflow Pipelines, and name no other field."""


def _map(required=(), **fields):
    return {"type": "object", "additionalProperties": False, "properties": fields, "required": list(required)}


def _list(items):
    return {"type": "array", "items": items, "minItems": 1}


TEXT = {"type": "string", "minLength": 1}
LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
METADATA = _map(("name", "namespace", "labels"), name=TEXT, namespace=TEXT, labels=LABELS, annotations=LABELS)
DURATION = {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)([0-9]+(ms|s|m|h))*$"}


def _resource(api, spec):
    return _map(("apiVersion", "kind", "metadata", "spec"), apiVersion={"const": api}, kind=TEXT, metadata=METADATA,
                spec=spec)


# ---- Prometheus operator
KEY = _map(("name", "key"), name=TEXT, key=TEXT)
TLS = _map(("ca", "cert", "keySecret", "serverName"), ca=_map(("secret",), secret=KEY),
           cert=_map(("secret",), secret=KEY), keySecret=KEY, serverName=TEXT)
RELABEL = _map((), sourceLabels=_list(TEXT), targetLabel=TEXT, regex=TEXT, replacement={"type": "string"},
               separator=TEXT, action={"enum": ["replace", "keep", "drop", "labelmap", "labeldrop", "labelkeep", "hashmod"]},
               modulus={"type": "integer"})
ENDPOINT = _map(("port", "scheme", "tlsConfig"), port=TEXT, scheme={"enum": ["http", "https"]}, tlsConfig=TLS,
                interval=DURATION, scrapeTimeout=DURATION, honorLabels={"type": "boolean"}, relabelings=_list(RELABEL),
                metricRelabelings=_list(RELABEL))
SELECTOR = _map(("matchLabels",), matchLabels=LABELS)
RULE = {"oneOf": [
    _map(("alert", "expr"), alert=TEXT, expr=TEXT, labels=LABELS, annotations=LABELS, keep_firing_for=DURATION,
         **{"for": {"type": "string", "pattern": "^(0|[0-9]+(ms|s|m|h|d|w))+$"}}),
    _map(("record", "expr"), record={"type": "string", "pattern": "^[a-zA-Z_:][a-zA-Z0-9_:]*$"}, expr=TEXT,
         labels=LABELS)]}

# ---- cert-manager
ISSUER = _map(("name", "kind"), name=TEXT, kind={"enum": ["Issuer", "ClusterIssuer"]}, group=TEXT)
CERTIFICATE = _map(
    ("secretName", "commonName", "issuerRef", "privateKey"), secretName=TEXT,
    commonName={"type": "string", "maxLength": 64}, dnsNames=_list(TEXT), ipAddresses=_list(TEXT), isCA={"type": "boolean"}, issuerRef=ISSUER,
    usages=_list({"enum": ["digital signature", "server auth", "client auth"]}),
    duration=DURATION, renewBefore=DURATION,
    privateKey=_map(("algorithm", "size"), algorithm={"const": "ECDSA"}, size={"enum": [256, 384, 521]},
                    encoding={"enum": ["PKCS1", "PKCS8"]}, rotationPolicy={"enum": ["Always", "Never"]}))

SCHEMAS = {
    "ServiceMonitor": _resource("monitoring.coreos.com/v1", _map(
        ("selector", "endpoints"), jobLabel=TEXT, selector=SELECTOR, endpoints=_list(ENDPOINT))),
    "PodMonitor": _resource("monitoring.coreos.com/v1", _map(
        ("selector", "podMetricsEndpoints"), jobLabel=TEXT, selector=SELECTOR, podMetricsEndpoints=_list(ENDPOINT))),
    "PrometheusRule": _resource("monitoring.coreos.com/v1", _map(("groups",), groups=_list(_map(
        ("name", "rules"), name=TEXT, interval=DURATION, limit={"type": "integer"}, labels=LABELS,
        rules=_list(RULE))))),
    "Certificate": _resource("cert-manager.io/v1", CERTIFICATE),
    "Issuer": _resource("cert-manager.io/v1", {"oneOf": [
        _map(("selfSigned",), selfSigned=_map()), _map(("ca",), ca=_map(("secretName",), secretName=TEXT))]}),
    "TLSRoute": _resource("gateway.networking.k8s.io/v1", _map(
        ("hostnames", "rules"), hostnames=_list(TEXT),
        parentRefs=_list(_map(("name",), group=TEXT, kind=TEXT, name=TEXT, namespace=TEXT, sectionName=TEXT,
                              port={"type": "integer"})),
        rules=_list(_map(("backendRefs",), backendRefs=_list(
            _map(("name", "port"), name=TEXT, port={"type": "integer"})))))),
}

# ---- Kueue, API v1beta2: the CustomResourceDefinitions of Kueue 0.19
QUANTITY = {"anyOf": [{"type": "integer", "minimum": 0},
                      {"type": "string", "pattern": "^[0-9]+([.][0-9]+)?(m|k|[MGTPE]|[KMGTPE]i)?$"}]}
QUOTA = _map(("name", "nominalQuota"), name=TEXT, nominalQuota=QUANTITY, borrowingLimit=QUANTITY, lendingLimit=QUANTITY)
FLAVOR = _map(("name", "resources"), name=TEXT, resources=_list(QUOTA))
# Objects that belong to no namespace.
OF_CLUSTER = _map(("name",), name=TEXT, labels=LABELS, annotations=LABELS)
IN_NAMESPACE = _map(("name", "namespace"), name=TEXT, namespace=TEXT, labels=LABELS, annotations=LABELS)
KUEUE_API = {"const": "kueue.x-k8s.io/v1beta2"}

KUEUE = {
    "ResourceFlavor": _map(("apiVersion", "kind", "metadata"), apiVersion=KUEUE_API, kind=TEXT, metadata=OF_CLUSTER,
                           spec=_map((), nodeLabels=LABELS)),
    "ClusterQueue": _map(
        ("apiVersion", "kind", "metadata", "spec"), apiVersion=KUEUE_API, kind=TEXT, metadata=OF_CLUSTER,
        spec=_map(("namespaceSelector", "resourceGroups"), namespaceSelector=SELECTOR,
                  preemption=_map((), withinClusterQueue={
                      "enum": ["Never", "LowerPriority", "LowerOrNewerEqualPriority"]}),
                  resourceGroups=_list(_map(("coveredResources", "flavors"), coveredResources=_list(TEXT),
                                            flavors=_list(FLAVOR))))),
    "WorkloadPriorityClass": _map(
        ("apiVersion", "kind", "metadata", "value"), apiVersion=KUEUE_API, kind=TEXT, metadata=OF_CLUSTER,
        value={"type": "integer"}, description={"type": "string", "maxLength": 2048}),
    "LocalQueue": _map(("apiVersion", "kind", "metadata", "spec"), apiVersion=KUEUE_API, kind=TEXT,
                       metadata=IN_NAMESPACE, spec=_map(("clusterQueue",), clusterQueue=TEXT)),
}

# ---- Kubeflow Pipelines 2.17: the messages PipelineSpec and PlatformSpec in the JSON of protobuf
TYPES = ["STRING", "NUMBER_INTEGER", "NUMBER_DOUBLE", "BOOLEAN", "LIST", "STRUCT"]
PARAMETERS = {"type": "object", "additionalProperties": _map(("parameterType",), parameterType={"enum": TYPES})}
ARTIFACTS = {"type": "object", "additionalProperties": _map(("artifactType",), artifactType=_map(
    ("schemaTitle", "schemaVersion"), schemaTitle={"const": "system.Artifact"}, schemaVersion=TEXT))}
CONSTANT = _map(("runtimeValue",), runtimeValue=_map(("constant",), constant=TEXT))
# The fields of ResourceSpec in numbers are deprecated; those in text replace them.
NUMBERS = ("cpuLimit", "cpuRequest", "memoryLimit", "memoryRequest")
RESOURCES = _map(("resourceMemoryLimit",), **{name: {"type": "number"} for name in NUMBERS},
                 **{f"resource{name[0].upper()}{name[1:]}": TEXT for name in NUMBERS})


def _by_name(one):
    return {"type": "object", "additionalProperties": one, "minProperties": 1}


PIPELINE = _map(
    ("components", "deploymentSpec", "pipelineInfo", "root", "schemaVersion", "sdkVersion"),
    components=_by_name(_map(
        ("executorLabel",), executorLabel=TEXT, inputDefinitions=_map((), parameters=PARAMETERS),
        outputDefinitions=_map((), parameters=PARAMETERS, artifacts=ARTIFACTS))),
    deploymentSpec=_map(("executors",), executors=_by_name(_map(("container",), container=_map(
        ("image", "command", "args"), image=TEXT, command=_list(TEXT), args=_list(TEXT), resources=RESOURCES,
        env=_list(_map(("name", "value"), name=TEXT, value=TEXT)))))),
    pipelineInfo=_map(("name",), name={"type": "string", "pattern": "^[a-z0-9-]{1,128}$"}, description=TEXT),
    root=_map(
        ("dag",), inputDefinitions=_map((), parameters=PARAMETERS),
        dag=_map(("tasks",), tasks=_by_name(_map(
            ("componentRef", "taskInfo"), componentRef=_map(("name",), name=TEXT), taskInfo=_map(("name",), name=TEXT),
            cachingOptions=_map((), enableCache={"type": "boolean"}),
            inputs=_map((), parameters={"type": "object", "additionalProperties": {"oneOf": [
                CONSTANT, _map(("componentInputParameter",), componentInputParameter=TEXT)]}}))))),
    schemaVersion={"const": "2.1.0"}, sdkVersion={"type": "string", "pattern": "^kfp-2[.]"})
PLATFORM = _map(("platforms",), platforms=_map(("kubernetes",), kubernetes=_map(
    ("deploymentSpec",), deploymentSpec=_map(("executors",), executors=_by_name(_map(
        (), secretAsVolume=_list(_map(
            ("mountPath", "secretNameParameter"), mountPath=TEXT, optional={"type": "boolean"}, secretName=TEXT,
            secretNameParameter=CONSTANT)),
        # The JSON of protobuf has 64-bit numbers as text.
        securityContext=_map((), runAsNonRoot={"type": "boolean"}, **{
            name: {"type": "string", "pattern": "^[0-9]+$"} for name in ("runAsUser", "runAsGroup")})))))))
