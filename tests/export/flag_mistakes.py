"""Flags in short, under another name, or given twice."""

from command_edits import LEADER, WORKER, edits_in

FLAG_MISTAKES = (
    *(
        edit
        for words in (("-tp", "8"), ("-tp", "4"), ("-tp=8",), ("-t", "8"), ("-dp", "2"), ("-e",), ("-n", "3"))
        for edit in edits_in(
            "dynamo, vllm, pools",
            "01-prefill-0.yaml",
            "DynamoGraphDeployment mixed-fleet-p0",
            (
                f"short {' '.join(words)}",
                "last",
                "- --enable-dbo\n",
                "- --enable-dbo\n" + "".join(f"          - '{word}'\n" for word in words),
                "spec.components.1.podTemplate.spec.containers.0.args",
            ),
            (
                f"short {' '.join(words)} behind a value",
                "last",
                "- --kv-cache-dtype\n          - fp8\n",
                "- --kv-cache-dtype\n          - fp8\n" + "".join(f"          - '{word}'\n" for word in words),
                "spec.components.1.podTemplate.spec.containers.0.args",
            ),
        )
    ),
    *edits_in(
        "dynamo, vllm, pools",
        "01-prefill-0.yaml",
        "DynamoGraphDeployment mixed-fleet-p0",
        *(
            (
                name,
                "last",
                "- --enable-dbo\n",
                f"- --enable-dbo\n          - {words[0]}\n          - '{words[1]}'\n",
                "spec.components.1.podTemplate.spec.containers.0.args",
            )
            for name, words in (
                ("degree twice, alike", ("--tensor-parallel-size", "4")),
                ("degree twice, the last right", ("--max-num-seqs", "2")),
                ("cut short", ("--tensor", "8")),
                ("with underscores", ("--tensor_parallel_size", "8")),
            )
        ),
        (
            "wrong, then right",
            "last",
            "- --tensor-parallel-size\n          - '4'\n",
            "- --tensor-parallel-size\n          - '8'\n          - --tensor-parallel-size\n          - '4'\n",
            "spec.components.1.podTemplate.spec.containers.0.args",
        ),
    ),
    *edits_in(
        "dynamo, sglang, single",
        "00-frontend.yaml",
        "DynamoGraphDeployment single-nodes",
        (
            "SGLang's other name",
            "first",
            "- --tp-size\n          - '8'\n",
            "- --tp-size\n          - '8'\n          - --tp\n          - '4'\n",
            "spec.components.1.podTemplate.spec.containers.0.args",
        ),
        (
            "SGLang's degree twice",
            "first",
            "- --tp-size\n          - '8'\n",
            "- --tp-size\n          - '4'\n          - --tp-size\n          - '8'\n",
            "spec.components.1.podTemplate.spec.containers.0.args",
        ),
    ),
    *edits_in(
        "lws, vllm, ranks",
        "02-h20-0.yaml",
        "LeaderWorkerSet mixed-fleet-h20-0",
        (
            "degree twice",
            "first",
            "--tensor-parallel-size=1",
            "--tensor-parallel-size=2\n          - --tensor-parallel-size=1",
            f"{LEADER}.args",
        ),
        ("short address", "last", "--headless", "--headless\n          - -dpa=10.0.0.1", f"{WORKER}.args"),
        ("short start rank", "first", "--api-server-count=8", "-dpr=0", f"{LEADER}.args"),
        ("port twice", "first", "--port=8000", "--port=9000\n          - --port=8000", f"{LEADER}.args"),
    ),
)
