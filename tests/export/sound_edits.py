"""Edits that leave manifests right, and must pass."""

from command_edits import SoundEdit

_ENV = "          - name: VLLM_NIXL_SIDE_CHANNEL_PORT\n"
_PROBE = (
    "          startupProbe:\n            httpGet:\n              path: /health\n              port: 30000\n"
    "            failureThreshold: 300\n"
)
_HEADLESS = """\
---
apiVersion: v1
kind: Service
metadata:
  name: all-of-h20-0
  labels:
    app.kubernetes.io/managed-by: planner
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    leaderworkerset.sigs.k8s.io/name: mixed-fleet-h20-0
  ports:
  - name: http
    port: 8000
"""
_ENTRY = "python3\n          - -m\n          - vllm.entrypoints.openai.api_server"

SOUND_EDITS = tuple(
    SoundEdit(name=name, case=case, rows=rows)
    for case, name, rows in (
        (
            "kubernetes, vllm, single",
            "engine's port",
            (
                ("02-h20-0.yaml", "--port=8000", "--port=9000"),
                ("02-h20-0.yaml", "containerPort: 8000", "containerPort: 9000"),
            ),
        ),
        (
            "kubernetes, vllm, single",
            "Service's port",
            (("*", "port: 8000", "port: 80"), ("routing.yaml", '"port": 8000', '"port": 80')),
        ),
        (
            "kubernetes, vllm, single",
            "port's name",
            (
                ("*", "name: http", "name: api"),
                ("*", "port: http", "port: api"),
                ("*", "targetPort: http", "targetPort: api"),
            ),
        ),
        (
            "kubernetes, vllm, single",
            "targets by number",
            (("*", "targetPort: http", "targetPort: 8000"), ("*", "            port: http", "            port: 8000")),
        ),
        ("kubernetes, vllm, single", "engine's own default port", (("*", "        - --port=8000\n", ""),)),
        (
            "kubernetes, vllm, single",
            "a program by its path",
            (("*", "- vllm\n        - serve", "- /usr/local/bin/vllm\n        - serve"),),
        ),
        (
            "kubernetes, sglang, single",
            "ports",
            (
                ("*", "--port=30000", "--port=31000"),
                ("*", "containerPort: 30000", "containerPort: 31000"),
                ("*", "port=8998", "port=8990"),
                ("*", "containerPort: 8998", "containerPort: 8990"),
            ),
        ),
        ("lws, vllm, ranks", "probe of another route", (("*", "path: /health", "path: /v1/models"),)),
        ("lws, sglang, ranks", "probe by a generation", (("*", "path: /health", "path: /health_generate"),)),
        ("lws, vllm, ranks", "smaller shared memory", (("*", "sizeLimit: 16Gi", "sizeLimit: 1Gi"),)),
        ("lws, vllm, ranks", "shared memory up to the pod's", (("*", "            sizeLimit: 16Gi\n", ""),)),
        ("lws, vllm, ranks", "rendezvous port", (("02-h20-0.yaml", "rpc-port=13345", "rpc-port=23456"),)),
        (
            "lws, vllm, ranks",
            "engine's port and its leaders",
            (
                ("*", "--port=8000", "--port=9000"),
                ("*", "containerPort: 8000", "containerPort: 9000"),
                ("routing.yaml", ':8000"', ':9000"'),
            ),
        ),
        (
            "lws, vllm, ranks",
            "leaders with their namespace",
            (("routing.yaml", '-h200-0:8000"', '-h200-0.serving.svc.cluster.local:8000"'),),
        ),
        (
            "lws, vllm, ranks",
            "more environment",
            (("*", _ENV, f"          - name: NCCL_DEBUG\n            value: INFO\n{_ENV}"),),
        ),
        (
            "lws, vllm, ranks",
            "front end's own flags",
            (
                (
                    "*",
                    "--api-server-count=8",
                    "--api-server-count=8\n          - --served-model-name=chat\n          - --enable-auto-tool-choice",
                ),
            ),
        ),
        (
            "lws, vllm, ranks",
            "another program for the same",
            (
                (
                    "02-h20-0.yaml",
                    "vllm\n          - serve\n          args:\n          - deep",
                    f"{_ENTRY}\n          args:\n          - --model=deep",
                ),
                ("02-h20-0.yaml", "vllm\n          - serve\n          - deep", f"{_ENTRY}\n          - --model=deep"),
            ),
        ),
        (
            "lws, vllm, ranks",
            "variables before the program",
            (
                (
                    "02-h20-0.yaml",
                    "- vllm\n          - serve",
                    "- env\n          - OMP_NUM_THREADS=1\n          - vllm\n          - serve",
                ),
            ),
        ),
        (
            "lws, vllm, spanning",
            "ranks of two pods in figures",
            (("01-h200-0.yaml", "start-rank=$(LWS_WORKER_INDEX)", "start-rank=1"),),
        ),
        ("lws, vllm, spanning", "master port", (("02-h20-0.yaml", "master-port=29501", "master-port=29999"),)),
        (
            "lws, vllm, spanning",
            "master port by default",
            (("02-h20-0.yaml", "          - --master-port=29501\n", ""),),
        ),
        ("lws, sglang, ranks", "rendezvous port", (("02-h20-0.yaml", ":5000", ":6000"),)),
        (
            "lws, sglang, ranks",
            "probe of the workers",
            (
                (
                    "02-h20-0.yaml",
                    "            value: '128'\n          lifecycle:\n",
                    f"            value: '128'\n{_PROBE}          lifecycle:\n",
                ),
            ),
        ),
        (
            "llm-d, vllm, ranks",
            "Service's port in the pods",
            (
                ("*", "servicePort: 8000", "servicePort: 8080"),
                ("*", "--port=8000", "--port=8080"),
                ("*", "containerPort: 8000", "containerPort: 8080"),
                ("services.yaml", "targetPort: 8000", "targetPort: 8080"),
            ),
        ),
        ("llm-d, vllm, ranks", "sidecar's port", (("01.values.yaml", "8200", "8300"),)),
        (
            "lws, vllm, ranks",
            "a headless Service over all pods",
            (("02-h20-0.yaml", "---\napiVersion: v1\n", f"{_HEADLESS}---\napiVersion: v1\n"),),
        ),
        ("kserve, vllm, ranks", "more flags", (("*", "--enable-dbo", "--enable-dbo --enforce-eager --seed=7"),)),
        ("script, vllm, shared hosts", "names of the site", (("routing.json", "shared-h20-0-1:", "host-17.example:"),)),
        ("script, vllm, ranks", "more environment", (("*", "      env\n", "      env\n      NCCL_DEBUG=INFO\n"),)),
        (
            "dynamo, vllm, pools",
            "more flags",
            (
                (
                    "*",
                    "- --enable-dbo\n",
                    "- --enable-dbo\n          - --seed\n          - '-1'\n          - --enforce-eager\n",
                ),
            ),
        ),
        (
            "dynamo, vllm, pools",
            "system port",
            (
                (
                    "01-prefill-0.yaml",
                    "- name: VLLM_NIXL",
                    "- name: DYN_SYSTEM_PORT\n            value: '9091'\n          - name: VLLM_NIXL",
                ),
                (
                    "routing.yaml",
                    '"island": "H200-0", "phase": "prefill", "port": 9090',
                    '"island": "H200-0", "phase": "prefill", "port": 9091',
                ),
            ),
        ),
    )
)
