#!/bin/sh
# The kernels that valgrind can run on this machine: it knows no AVX-512, and nothing of other architectures' vectors is asked of it.
[ "$(uname -m)" = x86_64 ] && grep -qm1 avx2 /proc/cpuinfo && echo avx2
[ "$(uname -m)" = x86_64 ] && echo sse2
echo scalar
