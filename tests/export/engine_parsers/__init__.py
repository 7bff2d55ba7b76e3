"""The engines' own parsers as judges of exported command lines: `installing` gets their packages, `verdicts` asks
them, `lines` takes command lines from manifests. The judges themselves are programs that run in the engines' packages
and know nothing of the planner: `judge_vllm`, `judge_sglang`; `judge_trtllm` has a list of what its engine takes."""
