#!/bin/sh
# Make .venv ready, once: find a Python that will do and let install.py fill .venv with it.
# PYTHON, where it is set, is the only one tried. What goes wrong is said in one line.
cd "$(dirname "$0")/.." || exit 1

# The stamp, written last of all, holds the folder and the lists that .venv was made from.
[ -z "$PYTHON" ] && { pwd -P; cat pyproject.toml constraints.txt; } | cmp -s - .venv/installed &&
    .venv/bin/python -c '' 2>/dev/null && exit 0

fail() {
    echo "transformer-lab: $*" >&2
    exit 1
}

# Prints what a Python is good for and its version; prints nothing where the command does not run.
look='
import sys
state = "good"
try:
    import ensurepip, venv
except ImportError:
    state = "bare"
if sys.version_info < (3, 11):
    state = "old"
print("%s %d.%d" % ((state,) + tuple(sys.version_info[:2])))
'
old='' bare='' shim=''
if [ -n "$PYTHON" ]; then set -- "$PYTHON"; else set -- python3 python3.14 python3.13 python3.12 python3.11 python; fi
for python; do
    found=$("$python" -c "$look" 2>/dev/null) || {
        case $("$python" -c '' 2>&1) in *pyenv:*) shim=$python ;; esac
        continue
    }
    case $found in
        good*) exec "$python" .setup/install.py ;;
        bare*) bare=${bare:-${found#* }} ;;
        old*) old=${old:-"$python is ${found#* }"} ;;
    esac
done

[ -z "$bare" ] || fail "Python $bare has no venv module: install it (on Debian and Ubuntu:" \
    "sudo apt install python$bare-venv), then run the same command again."
[ -z "$shim" ] || fail "$shim is pyenv's, which has switched that Python off in this folder: pyenv versions" \
    "lists those that it has, and pyenv local 3.11 (or the one listed) switches one on."
[ -z "$PYTHON" ] || fail "PYTHON=$PYTHON is no Python 3.11 or newer (${old:-it does not run}): name another."
fail "needs Python 3.11 or newer and found none (${old:-no python3 runs}): install it from" \
    "python.org/downloads, or name it: make PYTHON=/path/to/python3 lab"
