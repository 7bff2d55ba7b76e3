"""Mistakes along the way of a request, from the routing table to the port of the engine."""

from command_edits import LEADER, WORKER, Edit, edits_in

TABLE = "data[routing.json]"


def _single_ports(engine: str, port: int) -> tuple[Edit, ...]:
    """The way from the table to a Deployment's engine."""
    case, container = f"kubernetes, {engine}, single", "spec.template.spec.containers.0"
    return (
        *edits_in(
            case,
            "02-h20-0.yaml",
            "Deployment single-nodes-h20-0",
            ("engine elsewhere", "all", f"--port={port}", "--port=9000", f"{container}.args"),
            ("container elsewhere", "all", f"containerPort: {port}", "containerPort: 9000", f"{container}.args"),
            (
                "probe elsewhere",
                "first",
                "            port: http",
                "            port: 9000",
                f"{container}.readinessProbe.httpGet.port",
            ),
            (
                "probe at no port",
                "first",
                "            port: http",
                "            port: metrics",
                f"{container}.readinessProbe.httpGet.port",
            ),
        ),
        *edits_in(
            case,
            "02-h20-0.yaml",
            "Service single-nodes-h20-0",
            ("Service to no port", "last", "targetPort: http", "targetPort: web", "spec.ports.0.targetPort"),
            ("Service to another number", "last", "targetPort: http", "targetPort: 9000", "spec.ports.0.targetPort"),
        ),
        *edits_in(
            case,
            "routing.yaml",
            "ConfigMap single-nodes-routing",
            (
                "table elsewhere",
                "all",
                f'"island": "H20-0", "phase": "decode", "port": {port}',
                '"island": "H20-0", "phase": "decode", "port": 9000',
                f"{TABLE} services single-nodes-h20-0",
            ),
            (
                "table without a port",
                "all",
                f'"phase": "decode", "port": {port}',
                '"phase": "decode"',
                f"{TABLE} services single-nodes-h20-0",
            ),
            (
                "phase of another",
                "all",
                '"island": "H20-0", "phase": "decode"',
                '"island": "H20-0", "phase": "prefill"',
                f"{TABLE} services single-nodes-h20-0",
            ),
        ),
    )


PORT_MISTAKES = (
    *_single_ports("vllm", 8000),
    *_single_ports("sglang", 30000),
    *edits_in(
        "kubernetes, vllm, single",
        "routing.yaml",
        "ConfigMap single-nodes-routing",
        ("Service elsewhere", "all", '"port": 8000', '"port": 80', f"{TABLE} services single-nodes-h200-0"),
    ),
    *edits_in(
        "kubernetes, sglang, single",
        "01-h200-0.yaml",
        "Deployment single-nodes-h200-0",
        (
            "bootstrap elsewhere",
            "all",
            "--disaggregation-bootstrap-port=8998",
            "--disaggregation-bootstrap-port=8999",
            "spec.template.spec.containers.0.args",
        ),
        (
            "probe of the bootstrap",
            "first",
            "            port: http",
            "            port: bootstrap",
            "spec.template.spec.containers.0.readinessProbe.httpGet.port",
        ),
    ),
    *edits_in(
        "kubernetes, sglang, single",
        "01-h200-0.yaml",
        "Service single-nodes-h200-0",
        ("ports crossed", "last", "targetPort: bootstrap", "targetPort: http", "spec.ports.1.targetPort"),
    ),
    *edits_in(
        "kubernetes, sglang, single",
        "routing.yaml",
        "ConfigMap single-nodes-routing",
        (
            "table to the bootstrap",
            "first",
            '"phase": "prefill", "port": 30000',
            '"phase": "prefill", "port": 8998',
            f"{TABLE} services single-nodes-h200-0",
        ),
    ),
    *edits_in(
        "lws, vllm, ranks",
        "02-h20-0.yaml",
        "LeaderWorkerSet mixed-fleet-h20-0",
        (
            "engine at its default, container not",
            "first",
            "containerPort: 8000",
            "containerPort: 8001",
            f"{LEADER}.args",
        ),
        (
            "probe of a headless pod",
            "last",
            "          resources:\n",
            "          readinessProbe:\n            httpGet:\n              path: /health\n              port: 8000\n"
            "          resources:\n",
            f"{WORKER}.readinessProbe",
        ),
    ),
    *edits_in(
        "lws, vllm, ranks",
        "routing.yaml",
        "ConfigMap mixed-fleet-routing",
        *(
            (name, "first", old, new, f"{TABLE} services mixed-fleet-h200-0-leader")
            for name, old, new in (
                (
                    "leader at another port",
                    "mixed-fleet-h200-0-1.mixed-fleet-h200-0:8000",
                    "mixed-fleet-h200-0-1.mixed-fleet-h200-0:80",
                ),
                (
                    "leader of another set",
                    "mixed-fleet-h200-0-1.mixed-fleet-h200-0:",
                    "mixed-fleet-h20-0-1.mixed-fleet-h20-0:",
                ),
                ("leader beyond the last", "mixed-fleet-h200-0-1.", "mixed-fleet-h200-0-2."),
                ("leader missing", ', "mixed-fleet-h200-0-1.mixed-fleet-h200-0:8000"', ""),
                ("leader twice", "mixed-fleet-h200-0-1.", "mixed-fleet-h200-0-0."),
                (
                    "leader without a port",
                    "mixed-fleet-h200-0-1.mixed-fleet-h200-0:8000",
                    "mixed-fleet-h200-0-1.mixed-fleet-h200-0",
                ),
                ("leaders that are none", '["mixed-fleet-h200-0-0.mixed-fleet-h200-0:8000", ', "[8000, "),
            )
        ),
    ),
    *edits_in(
        "llm-d, vllm, ranks",
        "01.values.yaml",
        "release values 01.values.yaml",
        ("Service's port moved alone", "all", "servicePort: 8000", "servicePort: 8080", "prefill.containers.0.args"),
        ("sidecar's port moved alone", "all", "targetPort: 8200", "targetPort: 8300", "decode.containers.0.args"),
        ("engine moved alone", "all", "--port=8200", "--port=8300", "decode.containers.0.args"),
        ("decode at the sidecar's own port", "all", "8200", "8000", "routing.proxy.targetPort"),
    ),
    *edits_in(
        "llm-d, vllm, ranks",
        "services.yaml",
        "Service placed-h20-0-leader",
        ("past the sidecar", "last", "targetPort: 8000", "targetPort: 8200", "spec.ports.0.targetPort"),
    ),
    *edits_in(
        "llm-d, vllm, ranks",
        "routing.json",
        "routing table routing.json",
        ("table elsewhere", "last", '"port": 8000', '"port": 8200', "routes services placed-h20-0-leader"),
    ),
    *edits_in(
        "kserve, vllm, ranks",
        "services.yaml",
        "Service placed-h20-0-leader",
        ("past the sidecar", "last", "targetPort: 8000", "targetPort: 8001", "spec.ports.0.targetPort"),
    ),
    *edits_in(
        "kserve, vllm, ranks",
        "routing.yaml",
        "ConfigMap placed-routing",
        ("table elsewhere", "first", '"port": 8000', '"port": 8001', f"{TABLE} services placed-h200-0-leader"),
    ),
    *edits_in(
        "script, vllm, shared hosts",
        "routing.json",
        "routing table routing.json",
        ("leader of a later copy", "first", "h20-0-2:8256", "h20-0-2:8000", "routes services shared-h20-0"),
        ("table elsewhere", "first", '"port": 8000', '"port": 9000', "routes services shared-h200-0"),
        ("leader missing", "first", ', "shared-h20-0-2:8256"', "", "routes services shared-h20-0"),
        ("leaders alike", "first", "h20-0-1:8128", "h20-0-0:8000", "routes services shared-h20-0"),
    ),
    *edits_in(
        "dynamo, vllm, pools",
        "routing.yaml",
        "ConfigMap mixed-fleet-routing",
        ("table elsewhere", "first", '"port": 9090', '"port": 9000', f"{TABLE} services mixed-fleet-p0-h200-0"),
    ),
    *(
        edit
        for case, file, service in (
            ("lws, vllm, ranks", "02-h20-0.yaml", "mixed-fleet-h20-0-leader"),
            ("lws, sglang, ranks", "02-h20-0.yaml", "mixed-fleet-h20-0-leader"),
            ("disaggregatedset, vllm, ranks", "services.yaml", "mixed-fleet-h20-0-leader"),
            ("llm-d, vllm, ranks", "services.yaml", "placed-h20-0-leader"),
        )
        for edit in edits_in(
            case,
            file,
            f"Service {service}",
            ("requests to workers", "all", "    leaderworkerset.sigs.k8s.io/worker-index: '0'\n", "", "spec.selector"),
        )
    ),
    *edits_in(
        "lws, vllm, ranks",
        "routing.yaml",
        "ConfigMap mixed-fleet-routing",
        (
            "Service without an address",
            "first",
            '{"service": "mixed-fleet-h20-0-leader", "island": "H20-0", "phase": "decode", "port": 8000, '
            '"leaders": ["mixed-fleet-h20-0-0.mixed-fleet-h20-0:8000"]},\n    ',
            "",
            f"{TABLE} decode 0-2047",
        ),
    ),
    Edit(
        name="Service that names all pods",
        case="lws, vllm, ranks",
        file="02-h20-0.yaml",
        old="  type: ClusterIP\n  selector:\n    leaderworkerset.sigs.k8s.io/name: mixed-fleet-h20-0\n"
        "    leaderworkerset.sigs.k8s.io/worker-index: '0'\n",
        new="  clusterIP: None\n  selector:\n    leaderworkerset.sigs.k8s.io/name: mixed-fleet-h20-0\n",
        at="all",
        where=f"routing.yaml, ConfigMap mixed-fleet-routing, {TABLE} services mixed-fleet-h20-0-leader",
    ),
)
