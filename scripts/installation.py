"""Puts a laid-out Tern below a prefix, and takes it away again, by a manifest kept there.

Usage: installation.py install STAGE PREFIX
       installation.py uninstall PREFIX

The manifest, PREFIX/share/tern/manifest.txt, has a line for each folder that was made and one for each
file, with its sha256. It is written before the first file and with the lines of an older one, so an
install that is killed at any moment can be uninstalled or run again. Each file is written beside its
place and renamed: a tern that runs meanwhile goes on. What was changed since is not what was
installed, and stays. DESTDIR is part of PREFIX here.
"""

import hashlib
import os
import shutil
import sys

MANIFEST = "share/tern/manifest.txt"
TITLE = "# What `make install` of Tern made below this prefix; `make uninstall` removes it.\n"


def die(message):
    sys.exit(f"tern: error: {message}")


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def read_manifest(prefix):
    """The folders, and for each file the sums it may have; None where nothing is installed."""
    try:
        with open(os.path.join(prefix, MANIFEST), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return None
    folders, files = set(), {}
    for line in lines:
        kind, _, path = line.partition("  ")
        if not line or line.startswith("#"):
            continue
        if kind == "folder" and path:
            folders.add(path)
        elif len(kind) == 64 and path and not os.path.isabs(path) and ".." not in path.split("/"):
            files.setdefault(path, set()).add(kind)
        else:
            die(f"{os.path.join(prefix, MANIFEST)} is damaged at the line {line!r}. Run make install "
                "there again, which writes a new one, after moving this one away.")
    return folders, files


def put(source, target):
    beside = os.path.join(os.path.dirname(target), f".tern-install.{os.getpid()}")
    try:
        shutil.copyfile(source, beside)
        os.chmod(beside, 0o755 if os.access(source, os.X_OK) else 0o644)
        os.replace(beside, target)
    except BaseException:
        if os.path.exists(beside):
            os.remove(beside)
        raise


def write_manifest(stage, prefix, folders, files):
    path = os.path.join(stage, "manifest.new")
    with open(path, "w", encoding="utf-8") as file:
        file.write(TITLE)
        file.writelines(f"folder  {folder}\n" for folder in sorted(folders))
        file.writelines(f"{digest}  {name}\n" for name in sorted(files) for digest in sorted(files[name]))
    put(path, os.path.join(prefix, MANIFEST))
    os.remove(path)


def staged(stage):
    folders, files = ["share", "share/tern"], {}
    for folder, _, names in os.walk(stage):
        inside = os.path.relpath(folder, stage)
        if inside != ".":
            folders.append(inside)
        for name in names:
            files[os.path.normpath(os.path.join(inside, name))] = {sha256(os.path.join(folder, name))}
    return sorted(set(folders)), files


def check_writable(prefix, folders, verb):
    for folder in [".", *folders]:
        place = os.path.normpath(os.path.join(prefix, folder))
        there = place
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        if not os.path.isdir(there):
            die(f"{there} is not a folder. Choose another place: make {verb} PREFIX=$HOME/.local")
        if not os.access(there, os.W_OK | os.X_OK):
            other = ", or choose another place: make install PREFIX=$HOME/.local"
            die(f"{there} cannot be written by this user. Run make {verb} as root (sudo make {verb}"
                f" PREFIX=...){other if verb == 'install' else ''}.")


def missing_folders(prefix, folders):
    """Those that install will make, prefix and the ones above it too, relative to prefix."""
    up, above = ".", prefix
    while not os.path.isdir(above):
        yield up
        up, above = (".." if up == "." else os.path.join("..", up)), os.path.dirname(above)
    for folder in folders:
        if not os.path.isdir(os.path.join(prefix, folder)):
            yield folder


def remove_files(prefix, files):
    """Removes those that are as they were installed; returns the others."""
    changed = []
    for name, digests in sorted(files.items()):
        path = os.path.join(prefix, name)
        if not os.path.lexists(path):
            continue
        if os.path.islink(path) or not os.path.isfile(path) or sha256(path) not in digests:
            changed.append(path)
        else:
            os.remove(path)
    return changed


def remove_empty_folders(prefix, folders):
    """Deepest first, `..` after `.`; those that hold something else stay."""
    def depth(folder):
        return sum(-1 if part == ".." else 1 for part in folder.split("/") if part != ".")
    left = set()
    for folder in sorted(folders, key=depth, reverse=True):
        try:
            os.rmdir(os.path.normpath(os.path.join(prefix, folder)))
        except FileNotFoundError:
            pass
        except OSError:
            left.add(folder)
    return left


def install(stage, prefix):
    folders, files = staged(stage)
    check_writable(prefix, folders, "install")
    old_folders, old_files = read_manifest(prefix) or (set(), {})
    made = old_folders | set(missing_folders(prefix, folders))
    os.makedirs(os.path.join(prefix, "share/tern"), exist_ok=True)
    both = {name: old_files.get(name, set()) | files.get(name, set()) for name in {*old_files, *files}}
    write_manifest(stage, prefix, made, both)
    for folder in folders:
        os.makedirs(os.path.join(prefix, folder), exist_ok=True)
    for name in files:
        put(os.path.join(stage, name), os.path.join(prefix, name))
    gone = {name: digests for name, digests in old_files.items() if name not in files}
    for path in remove_files(prefix, gone):
        print(f"tern: {path} is no longer part of Tern; it was changed since, and stays", file=sys.stderr)
    unused = {folder for folder in made if folder not in folders and folder.split("/")[0] not in (".", "..")}
    left = remove_empty_folders(prefix, unused)
    write_manifest(stage, prefix, made - unused | left, files)


def uninstall(prefix):
    manifest = read_manifest(prefix)
    if manifest is None:
        die(f"no Tern was installed in {prefix} by make install ({MANIFEST} is not there). Name the "
            "place it was installed to: make uninstall PREFIX=...")
    folders, files = manifest
    parents = {os.path.dirname(name) for name in [*files, MANIFEST]}
    check_writable(prefix, sorted(p for p in parents if os.path.isdir(os.path.join(prefix, p))), "uninstall")
    changed = remove_files(prefix, files)
    os.remove(os.path.join(prefix, MANIFEST))
    remove_empty_folders(prefix, folders)
    for path in changed:
        print(f"tern: {path} was changed since it was installed, and stays; remove it by hand",
              file=sys.stderr)


def main(arguments):
    try:
        match arguments:
            case ["install", stage, prefix]:
                install(stage, prefix)
            case ["uninstall", prefix]:
                uninstall(prefix)
            case _:
                die("usage: installation.py install STAGE PREFIX | uninstall PREFIX")
    except OSError as error:
        die(f"{error.filename2 or error.filename}: {error.strerror}. Mend this and try again.")


main(sys.argv[1:])
