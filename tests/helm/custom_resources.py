"""Strict schemas of the custom resources that the chart makes, with the fields that it may use. They follow the
reference pages of the Prometheus operator, cert-manager and the Gateway API, and name no other field."""


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
