"""A folder of a git work tree that Argo CD or Flux applies: one commit a stage, and nothing else touched.

What a kill leaves is a folder half written and no commit; the same stage is then written again. Which stage stands is
what the newest commit of the folder says of itself, so that no other file has to be kept in step with it. Commits are
local: who pushes them, and with whose rights, is the user's.

| trailer | holds |
|---|---|
| Planner-Plan | number of the plan that is being reached, as in the watch's folder |
| Planner-Stage | K/N: stage K of N stands; 0/0: the plan as a whole |
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from planner.errors import InputError, PlannerError
from planner.files.disk.single_files import write_file

_PLAN, _STAGE = "Planner-Plan", "Planner-Stage"
_TRAILERS = re.compile(rf"^{_PLAN}: (\d{{1,9}})$.*^{_STAGE}: (\d{{1,9}})/(\d{{1,9}})$", re.MULTILINE | re.DOTALL)
_PATIENCE_S = 120.0
MARK = "STAGE"
"""A file that says which stage it is: two stages of equal objects are two commits all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What stands: stage `stage` of `stages` on the way to plan `plan`, since `at_s` (seconds since 1970)."""

    plan: int
    stage: int
    stages: int
    at_s: float

    @property
    def done(self) -> bool:
        """Whether the plan stands as a whole."""
        return self.stage == self.stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """`folder` of the work tree `root`, in which a plan's stages are committed."""

    root: Path
    folder: Path

    @classmethod
    def at(cls, path: Path, label: str) -> Self:
        """The folder `label` below `path`. InputError where that is no work tree of git on a branch, something else has
        its name, or git is not there."""
        if shutil.which("git") is None:
            raise InputError(
                "--repository: must have git on the PATH, has none.", hint="Install git, or leave --repository out."
            )
        if not path.is_dir():
            raise InputError(
                f"--repository {path}: must be a folder of a git work tree, is none.", hint="Clone it there first."
            )
        done = _git(path, "rev-parse", "--show-toplevel", check=False)
        if done.status:
            raise InputError(
                f"--repository {path}: must be a folder of a git work tree, is in none.",
                hint=f"Clone the repository that Argo CD or Flux follows, or begin one: git init {path}.",
            )
        if _git(path, "symbolic-ref", "--quiet", "HEAD", check=False).status:
            raise InputError(
                f"--repository {path}: must have a branch checked out, HEAD is detached.",
                hint="Commits of no branch are pushed by nobody: git switch BRANCH.",
            )
        folder = path.resolve() / label
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise InputError(f"{folder}: must be a folder, is none.", hint="Move it elsewhere.")
        return cls(root=Path(os.fsdecode(done.text).rstrip("\n")), folder=folder)

    @property
    def standing(self) -> Commit | None:
        """What the newest commit of the folder says; None: there is none. InputError where somebody else made it."""
        if _git(self.root, "rev-parse", "--verify", "--quiet", "HEAD", check=False).status:
            return None
        text = _git(self.root, "log", "-1", "--format=%ct%n%B", "--", str(self.folder)).text.decode(errors="replace")
        if not text.strip():
            return None
        at_s, _, message = text.partition("\n")
        trailers = _TRAILERS.search(message)
        if trailers is None:
            raise InputError(
                f"{self.folder}: its last commit must be of this command, got {message.splitlines()[0]!r:.80}.",
                hint="Revert that commit, or watch with another --repository.",
            )
        plan, stage, stages = map(int, trailers.groups())
        return Commit(plan=plan, stage=stage, stages=stages, at_s=float(at_s))

    def commit(self, contents: Mapping[str, bytes], title: str, reached: Commit) -> None:
        """The folder with these files and no others, as one commit.

        Raises InputError where it holds changes that are neither committed nor what is written now; PlannerError where
        git does not take the commit, or a hook alters it.
        """
        contents = {**contents, MARK: f"{title}\n".encode()}
        self._require_ours(contents)
        for name in self._names():
            if name not in contents:
                (self.folder / name).unlink()
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_file(self.folder / name, content, force=True)
        message = f"{title}\n\n{_PLAN}: {reached.plan}\n{_STAGE}: {reached.stage}/{reached.stages}\n"
        _git(self.root, "add", "--all", "--force", "--", str(self.folder))
        date = f"{reached.at_s:.0f} +0000"
        _git(self.root, *self._author(), "commit", "--quiet", "--only", "-m", message, "--",
             str(self.folder), date=date)  # fmt: skip
        trailers = _TRAILERS.search(_git(self.root, "log", "-1", "--format=%B").text.decode(errors="replace"))
        ours = trailers is not None and trailers[0] in message  # others may be added
        if not ours or _git(self.root, "status", "--porcelain", "--", str(self.folder)).text:
            raise PlannerError(
                f"git commit in {self.root}: must take {self.folder.name}/ as it is written, a hook altered it.",
                hint="Exempt the folder from the hooks of the repository, and revert the commit.",
            )

    def _names(self) -> list[str]:
        if not self.folder.exists():
            return []
        strangers = [path.name for path in self.folder.iterdir() if path.is_symlink() or not path.is_file()]
        if strangers:
            raise InputError(
                f"{self.folder}: must hold the files of a stage alone, holds {strangers[0]}.", hint="Move it elsewhere."
            )
        return sorted(path.name for path in self.folder.iterdir())

    def _require_ours(self, contents: Mapping[str, bytes]) -> None:
        """InputError where the folder was changed by hand since its last commit."""
        listed = _git(self.root, "status", "--porcelain", "-z", "--untracked-files=all", "--", str(self.folder)).text
        for row in filter(None, listed.split(b"\0")):
            path = self.root / row[3:].decode(errors="surrogateescape")
            written = path.read_bytes() if path.is_file() else None
            if written != contents.get(path.name):
                raise InputError(
                    f"{path}: must be as it was committed, was changed by hand.",
                    hint="Commit it elsewhere, or take the change back: git checkout.",
                )

    def _author(self) -> Sequence[str]:
        """Who commits, where the user's settings name nobody."""
        if _git(self.root, "config", "user.email", check=False).status == 0:
            return ()
        return ("-c", "user.name=planner", "-c", "user.email=planner@localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """Of git: its exit status, and what it said."""

    status: int
    text: bytes


def _git(folder: Path, *words: str, check: bool = True, date: str = "") -> _Answer:
    """What git says; it asks nobody for a password. PlannerError where it fails."""
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date} if date else {}
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **dates}
    command = ["git", "-C", str(folder), *words]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    try:
        with subprocess.Popen(command, stdin=nothing, stdout=pipe, stderr=pipe, env=environment) as process:  # noqa: S603
            text, errors = process.communicate(timeout=_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PlannerError(f"git {words[0]}: could not be run: {error}.", hint="Try it by hand.") from None
    if check and process.returncode:
        lines = errors.decode(errors="replace").strip().splitlines()
        of_git = [line for line in lines if line.startswith(("error:", "fatal:"))]
        reason = (*of_git, *reversed(lines), f"ended with {process.returncode}")[0]
        raise PlannerError(
            f"git {words[0]} in {folder}: {reason}",
            hint="Mend what git says, and start the watch again: it goes on with the same stage.",
        )
    return _Answer(status=process.returncode, text=text)
