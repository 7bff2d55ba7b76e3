"""A confined process: what it may touch, tried in one that has nothing else to do."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from planner.processes import confinement

TRIES = {
    "read inside": "open('in/file').read()",
    "write inside": "open('in/new', 'w').close()",
    "rename inside": "os.rename('in/new', 'in/newer')",
    "make a folder inside": "os.mkdir('in/folder')",
    "list inside": "os.listdir('in')",
    "read a library": "open(json.__file__).read()",
    "write nowhere": "open(os.devnull, 'w').close()",
    "read outside": "open('out/file').read()",
    "read by a link": "open('in/link').read()",
    "read above": "open('in/../out/file').read()",
    "list outside": "os.listdir('out')",
    "scan outside": "list(os.scandir('out'))",
    "write outside": "open('out/new', 'w').close()",
    "append outside": "os.open('out/file', os.O_WRONLY | os.O_APPEND)",
    "write a library": "open(json.__file__, 'a').close()",
    "write beside": "open('inside', 'w').close()",
    "make a folder outside": "os.mkdir('out/folder')",
    "rename to outside": "os.rename('in/file', 'out/moved')",
    "rename from outside": "os.rename('out/file', 'in/moved')",
    "remove outside": "os.remove('out/file')",
    "remove by a descriptor": "os.remove('file', dir_fd=folder)",
    "link from outside": "os.link('out/file', 'in/linked')",
    "link to outside": "os.symlink('/etc', 'out/linked')",
    "connect": "socket.create_connection(('127.0.0.1', 9), 1)",
    "look an address up": "socket.getaddrinfo('localhost', 9)",
    "start a program": "subprocess.run(['true'])",
    "start a shell": "os.system('true')",
}
ALLOWED = [*TRIES][:7]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Try -> the error that it met, or nothing."""
    here = tmp_path_factory.mktemp("confined")
    for name in ("in", "out"):
        (here / name).mkdir()
        (here / name / "file").write_text("a")
    (here / "in" / "link").symlink_to(here / "out" / "file")
    code = (
        "import json, os, socket, subprocess, sys\nfrom pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(confinement.__file__).parents[2])!r})\n"
        "from planner.processes.confinement import confine\n"
        "folder = os.open('out', os.O_RDONLY)\nconfine([Path('in')])\nmet = {}\n"
        f"for name, code in {TRIES!r}.items():\n"
        "    try:\n        exec(code)\n        met[name] = ''\n"
        "    except Exception as error:\n        met[name] = type(error).__name__\n"
        "print(json.dumps(met))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=here, capture_output=True, text=True, check=True)
    left = sorted(path.relative_to(here).as_posix() for path in here.rglob("*"))
    assert left == ["in", "in/file", "in/folder", "in/link", "in/newer", "out", "out/file"]
    assert (here / "in" / "link").readlink() == here / "out" / "file"
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("name", TRIES)
def test_it_stays_where_it_is_put(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == ("" if name in ALLOWED else "PermissionError")
