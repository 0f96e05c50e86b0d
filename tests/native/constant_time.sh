#!/bin/sh
# constant_time.sh BUILD ORDINARY: runs constant_time under valgrind on every kernel that valgrind knows, and shows that it can fail.
# BUILD is a meson build folder with -DSEALANE_WATCH_SECRETS, ORDINARY one without, where aead_open's own decision is a branch on a secret.
set -eu
build=$1 ordinary=$2 cc=${CC:-cc}
here=$(dirname "$0")

program() { # library, name, flags
    library=$1 name=$2
    shift 2
    # DWARF 4, since valgrind 3.19 can't read clang's 5
    $cc -std=gnu11 -O2 -g -gdwarf-4 -Wall -Wextra "$@" "$here/constant_time.c" "$library/engine/native/libkernels.a" -o "$build/$name"
}

watch() { valgrind -q --error-exitcode=9 "$build/$1" "$2"; }

must_report() { # name, kernel
    status=0
    watch "$1" "$2" >"$build/$1.log" 2>&1 || status=$?
    if [ $status -ne 9 ]; then
        echo "$1 on $2: valgrind reported nothing, and should have" >&2
        exit 1
    fi
    echo "$2: $1 is reported, as it must be"
}

program "$build" constant_time
program "$build" leak_by_branch -DLEAK=BRANCH
program "$build" leak_by_index -DLEAK=INDEX
program "$ordinary" decision_not_marked

kernels=$(sh "$here/valgrind_kernels.sh")
for kernel in $kernels; do
    watch constant_time "$kernel"
    must_report leak_by_branch "$kernel"
    must_report leak_by_index "$kernel"
    must_report decision_not_marked "$kernel"
done
