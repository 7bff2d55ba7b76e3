"""Google's CEL evaluator on the rules of CRDs, run as a program with the folder of its package.

Comes in on standard input: a list of [rule, self] as JSON; goes out: one text a row, empty where the rule holds, else
why not. `self` is the value that the rule stands at, as an API server sees it when the object is made.
"""

import json
import sys
from functools import cache
from typing import Any


def main(folder: str) -> None:
    """Answers every row."""
    sys.path.insert(0, folder)
    from cel_expr_python import cel

    environment = cel.NewEnv(variables={"self": cel.Type.DYN})
    compiled = cache(environment.compile)

    def answer(rule: str, value: Any) -> str:
        result = compiled(rule).eval(data={"self": value})
        if result.type() == cel.Type.ERROR:
            return f"an error: {result.plain_value()}"
        return "" if result.plain_value() is True else f"gives {result.plain_value()}"

    json.dump([answer(rule, value) for rule, value in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
