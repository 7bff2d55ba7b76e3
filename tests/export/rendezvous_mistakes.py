"""Mistakes in the flags by which the pods of a copy find each other."""

from command_edits import LEADER, WORKER, Edit, edits_in

LWS_ADDRESS = "$(LWS_LEADER_ADDRESS)"


def _vllm_group(case: str, file: str, thing: str, leader: str, worker: str, address: str) -> tuple[Edit, ...]:
    """Ranks over pods; `leader` and `worker` are the fields of their words."""
    return edits_in(
        case,
        file,
        thing,
        ("worker with a front end", "last", "--headless", "--disable-log-stats", worker),
        ("leader without a front end", "first", "--api-server-count", "--headless=", leader),
        ("leader with a start rank", "first", "--data-parallel-rpc-port", "--data-parallel-start-rank=0", leader),
        ("worker calls another address", "last", f"address={address}", "address=10.0.0.1", worker),
        ("leader has another address", "first", f"address={address}", "address=10.0.0.1", leader),
        ("ports apart", "last", "rpc-port=13345", "rpc-port=13346", worker),
        ("port that is none", "all", "rpc-port=13345", "rpc-port=133450", leader),
        ("worker names no address", "last", "--data-parallel-address", "--seed", worker),
        ("own load balancing", "last", "--headless", "--headless\n{indent}--data-parallel-hybrid-lb", worker),
        ("another model", "last", "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-R1", worker),
        ("another exchange", "last", "--all2all-backend=deepep", "--all2all-backend=pplx", worker),
    )


def _indented(edits: tuple[Edit, ...], indent: str) -> tuple[Edit, ...]:
    """With the lines that an edit adds indented as their neighbours."""
    return tuple(
        Edit(
            name=e.name,
            case=e.case,
            file=e.file,
            old=e.old,
            new=e.new.replace("{indent}", indent),
            at=e.at,
            where=e.where,
        )
        for e in edits
    )


_ROLE = "spec.roles.1.spec.leaderWorkerTemplate"

RENDEZVOUS_MISTAKES = (
    *_indented(
        _vllm_group(
            "lws, vllm, ranks",
            "02-h20-0.yaml",
            "LeaderWorkerSet mixed-fleet-h20-0",
            f"{LEADER}.args",
            f"{WORKER}.args",
            LWS_ADDRESS,
        ),
        "          - ",
    ),
    *edits_in(
        "lws, vllm, ranks",
        "02-h20-0.yaml",
        "LeaderWorkerSet mixed-fleet-h20-0",
        ("start ranks of other pods", "first", "- $(LWS_WORKER_INDEX)", "- '1'", f"{WORKER}.args"),
        (
            "start ranks too close",
            "last",
            "- '8'\n          - vllm",
            "- '4'\n          - vllm",
            f"{WORKER}.args",
        ),
        ("another script", "last", "shift 2; exec", "shift 1; exec", f"{WORKER}.command"),
    ),
    *edits_in(
        "lws, vllm, ranks",
        "03-h20-1.yaml",
        "LeaderWorkerSet mixed-fleet-h20-1",
        ("one pod, headless", "all", "--port=8000", "--port=8000\n          - --headless", f"{WORKER}.args"),
        (
            "one pod, of another's address",
            "all",
            "--port=8000",
            "--port=8000\n          - --data-parallel-address=10.0.0.1",
            f"{WORKER}.args",
        ),
    ),
    *edits_in(
        "lws, vllm, spanning",
        "01-h200-0.yaml",
        "LeaderWorkerSet spanning-h200-0",
        ("start rank that is no rank", "last", "rank=$(LWS_WORKER_INDEX)", "rank=0", f"{WORKER}.args"),
        ("worker without a start rank", "last", "--data-parallel-start-rank", "--seed", f"{WORKER}.args"),
    ),
    *edits_in(
        "lws, vllm, spanning",
        "02-h20-0.yaml",
        "LeaderWorkerSet spanning-h20-0",
        ("worker with the leader's rank", "last", "rank=$(LWS_WORKER_INDEX)", "rank=0", f"{WORKER}.args"),
        ("leader with a worker's rank", "first", "rank=$(LWS_WORKER_INDEX)", "rank=1", f"{LEADER}.args"),
        ("no rank", "last", "--node-rank", "--seed", f"{WORKER}.args"),
        ("master elsewhere", "last", f"addr={LWS_ADDRESS}", "addr=127.0.0.1", f"{WORKER}.args"),
        ("master of the leader elsewhere", "first", f"addr={LWS_ADDRESS}", "addr=10.0.0.1", f"{LEADER}.args"),
        ("master ports apart", "first", "master-port=29501", "master-port=29502", f"{WORKER}.args"),
        ("no master port in the worker", "last", "master-port=29501", "master-port=0", f"{WORKER}.args"),
        ("worker with a front end", "last", "--headless", "--port=8000", f"{WORKER}.args"),
        ("leader without one", "first", "--port=8000", "--headless", f"{LEADER}.args"),
        (
            "both forms at once",
            "last",
            "--headless",
            "--headless\n          - --data-parallel-address=10.0.0.1",
            f"{WORKER}.args",
        ),
    ),
    *edits_in(
        "lws, sglang, ranks",
        "02-h20-0.yaml",
        "LeaderWorkerSet mixed-fleet-h20-0",
        ("rank of the leader", "last", "--node-rank=$(LWS_WORKER_INDEX)", "--node-rank=0", f"{WORKER}.args"),
        ("rank of a worker", "first", "--node-rank=$(LWS_WORKER_INDEX)", "--node-rank=1", f"{LEADER}.args"),
        ("no rank", "last", "--node-rank=$(LWS_WORKER_INDEX)", "--random-seed=1", f"{WORKER}.args"),
        ("no rendezvous", "last", f"--dist-init-addr={LWS_ADDRESS}:5000", "--random-seed=1", f"{WORKER}.args"),
        ("another leader", "last", f"{LWS_ADDRESS}:5000", "10.0.0.1:5000", f"{WORKER}.args"),
        ("leader at another address", "first", f"{LWS_ADDRESS}:5000", "10.0.0.1:5000", f"{LEADER}.args"),
        ("ports apart", "last", f"{LWS_ADDRESS}:5000", f"{LWS_ADDRESS}:5001", f"{WORKER}.args"),
        ("no port", "all", f"{LWS_ADDRESS}:5000", LWS_ADDRESS, f"{LEADER}.args"),
        ("nodes of the worker", "last", "--nnodes=4", "--nnodes=2", f"{WORKER}.args"),
        ("older name of the address", "last", "--dist-init-addr", "--nccl-init-addr", f"{WORKER}.args"),
    ),
    *edits_in(
        "lws, sglang, ranks",
        "03-h20-1.yaml",
        "LeaderWorkerSet mixed-fleet-h20-1",
        ("rank of one pod", "all", "--port=30000", "--port=30000\n          - --node-rank=1", f"{WORKER}.args"),
    ),
    *edits_in(
        "disaggregatedset, vllm, ranks",
        "disaggregatedset.yaml",
        "DisaggregatedSet mixed-fleet",
        (
            "workers with a front end",
            "last",
            "--headless",
            "--seed=1",
            f"{_ROLE}.workerTemplate.spec.containers.0.args",
        ),
        (
            "ports apart",
            "last",
            "rpc-port=13345",
            "rpc-port=13346",
            f"{_ROLE}.workerTemplate.spec.containers.0.args",
        ),
    ),
    *edits_in(
        "disaggregatedset, sglang, ranks",
        "disaggregatedset.yaml",
        "DisaggregatedSet mixed-fleet",
        (
            "ports apart",
            "last",
            f"{LWS_ADDRESS}:5000",
            f"{LWS_ADDRESS}:5001",
            f"{_ROLE}.workerTemplate.spec.containers.0.args",
        ),
    ),
    *_indented(
        _vllm_group(
            "llm-d, vllm, ranks",
            "01.values.yaml",
            "release values 01.values.yaml",
            "prefill.containers.0.args",
            "decode.containers.0.args",
            LWS_ADDRESS,
        ),
        "    - ",
    ),
    *edits_in(
        "llm-d, sglang, ranks",
        "01.values.yaml",
        "release values 01.values.yaml",
        ("ports apart", "last", f"{LWS_ADDRESS}:5000", f"{LWS_ADDRESS}:5001", "decode.containers.0.args"),
        ("rank of the leader", "last", "rank=$(LWS_WORKER_INDEX)", "rank=0", "decode.containers.0.args"),
        ("leader and worker mixed", "first", "- '28'", "- '27'", "prefill.containers.0.args"),
    ),
    *edits_in(
        "kserve, vllm, ranks",
        "01.yaml",
        "LLMInferenceService placed-01",
        ("headless leader", "first", "--enable-dbo", "--enable-dbo --headless", "spec.template.containers.0.env"),
        (
            "address of its own",
            "last",
            "--enable-dbo",
            "--enable-dbo --master-addr=10.0.0.1",
            "spec.prefill.worker.containers.0.env",
        ),
        ("port of its own", "first", "--enable-dbo", "--enable-dbo --port=8000", "spec.template.containers.0.env"),
    ),
    *edits_in(
        "kserve, vllm, single",
        "01.yaml",
        "LLMInferenceService single-nodes-01",
        ("headless", "first", "--max-num-seqs", "--headless --max-num-seqs", "spec.template.containers.0.env"),
        ("port of its own", "first", "--max-num-seqs", "--port=9000 --max-num-seqs", "spec.template.containers.0.env"),
    ),
    *_indented(
        _vllm_group(
            "script, vllm, ranks",
            "02-h20-0.sh",
            "launch script mixed-fleet-h20-0",
            "commands.*:leader",
            "commands.*:worker",
            '"$leader_address"',
        ),
        "      ",
    ),
    *edits_in(
        "script, vllm, ranks",
        "02-h20-0.sh",
        "launch script mixed-fleet-h20-0",
        ("start ranks of other pods", "last", '"$rank"', "1", "commands.*:worker"),
    ),
    *edits_in(
        "script, vllm, spanning",
        "02-h20-0.sh",
        "launch script spanning-h20-0",
        ("worker with the leader's rank", "last", 'rank="$rank"', "rank=0", "commands.*:worker"),
        ("master ports apart", "last", "master-port=29501", "master-port=29502", "commands.*:worker"),
    ),
    *edits_in(
        "script, sglang, ranks",
        "02-h20-0.sh",
        "launch script mixed-fleet-h20-0",
        ("ports apart", "last", '"$leader_address":5000', '"$leader_address":5001', "commands.*:worker"),
        ("another leader", "first", '"$leader_address":5000', "10.0.0.1:5000", "commands.*:leader"),
    ),
    *edits_in(
        "script, vllm, shared hosts",
        "02-h20-0.sh",
        "launch script shared-h20-0",
        ("batch of a later copy", "last", "--max-num-seqs=16", "--max-num-seqs=15", "commands.2:leader"),
        ("later copy that serves nobody", "last", "--port=8256", "--headless", "commands.2:leader"),
    ),
    *edits_in(
        "dynamo, vllm, pools",
        "01-prefill-0.yaml",
        "DynamoGraphDeployment mixed-fleet-p0",
        *(
            (
                f"{flag} by hand",
                "last",
                "- --enable-dbo\n",
                f"- --enable-dbo\n          - {flag}\n" + (f"          - '{value}'\n" if value else ""),
                "spec.components.1.podTemplate.spec.containers.0.args",
            )
            for flag, value in (
                ("--headless", ""),
                ("--data-parallel-address", "10.0.0.1"),
                ("--data-parallel-start-rank", "1"),
                ("--data-parallel-rpc-port", "1000"),
                ("--node-rank", "1"),
                ("--nnodes", "2"),
                ("--master-addr", "10.0.0.1"),
            )
        ),
    ),
    *edits_in(
        "dynamo, vllm, single",
        "00-frontend.yaml",
        "DynamoGraphDeployment single-nodes",
        (
            "headless",
            "first",
            "- --max-num-seqs\n",
            "- --headless\n          - --max-num-seqs\n",
            "spec.components.1.podTemplate.spec.containers.0.args",
        ),
    ),
    *edits_in(
        "dynamo, sglang, ranks",
        "00-frontend.yaml",
        "DynamoGraphDeployment mixed-fleet",
        (
            "address by hand",
            "first",
            "- --enable-dp-attention\n",
            "- --enable-dp-attention\n          - --dist-init-addr\n          - 10.0.0.1:5000\n",
            "spec.components.1.podTemplate.spec.containers.0.args",
        ),
    ),
    *edits_in(
        "dynamo, vllm, spanning",
        "00-frontend.yaml",
        "DynamoGraphDeployment spanning",
        (
            "executor of the operator's choice",
            "first",
            "        annotations:\n          nvidia.com/vllm-distributed-executor-backend: mp\n",
            "",
            "spec.components.2.podTemplate.metadata.annotations.nvidia.com/vllm-distributed-executor-backend",
        ),
        ("flags of another engine's nodes", "first", "Framework: vllm", "Framework: sglang", "spec.backendFramework"),
    ),
    *edits_in(
        "script, vllm, ranks",
        "02-h20-0.sh",
        "launch script mixed-fleet-h20-0",
        ("address that is not filled in", "last", '"$leader_address"', "'$leader_address'", "commands.*:worker"),
        ("rank that is not filled in", "last", '"$rank"', "'$rank'", "commands.*:worker"),
    ),
)
