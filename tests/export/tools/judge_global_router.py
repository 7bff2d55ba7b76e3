"""The loader of Dynamo's GlobalRouter (`load_config`) on its configurations, run as a program with the folder of its
package.

Comes in on standard input: a list of configurations as texts; goes out: one text each, empty where it loads, else why
it does not.
"""

import json
import sys
import tempfile
from pathlib import Path


def main(folder: str) -> None:
    """Answers every configuration."""
    sys.path.insert(0, folder)
    from dynamo.global_router.pool_selection import load_config

    def answer(text: str) -> str:
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch, "config.json")
            path.write_text(text, encoding="utf-8")
            try:
                load_config(path)
            except Exception as error:  # noqa: BLE001  # the loader is the judge, however it says no
                return f"{type(error).__name__}: {error}"
        return ""

    json.dump([answer(text) for text in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
