"""`planner engines`, and the engine that `planner export` takes."""

from command_line import Command

from planner.files import engine_profiles


def test_engines_are_listed_by_version(planner: Command) -> None:
    rows = planner("engines", "--json").json
    assert [(row["name"], row["version"]) for row in rows] == [(p.name, p.version) for p in engine_profiles()]
    listed = planner("engines").out
    assert all(profile.version in listed for profile in engine_profiles())


def test_an_engine_tells_what_it_accepts_and_where_that_comes_from(planner: Command) -> None:
    words = planner("engines", "sglang").out
    for part in (
        "sglang 0.5.23",
        "the shared expert is shared out over a stage, whole with an all-to-all backend",
        "at most 8 ranks, or whole nodes of so many",
        "one choice a server, with DeepEP",
        "none for MixtralForCausalLM",
        "lmsysorg/sglang:v0.5.23-rocm720-mi30x",
        "Source: SGLang 0.5.23, the newest on PyPI in November 2026",
    ):
        assert part in words
    assert "201 architectures" in words


def test_what_there_is_no_profile_of_is_refused(planner: Command) -> None:
    wrong = planner("engines", "sglnag")
    assert (wrong.status, "Did you mean sglang?" in wrong.err) == (2, True)
    wrong = planner("engines", "vllm", "0.1")
    assert wrong.status == 2
    assert "There is no profile of vllm '0.1'." in wrong.err
    assert "The versions are 0.18.0, 0.31.0, 0.33.0." in wrong.err
