#!/usr/bin/env bash
# Measures meetings of many ranks, and init over hosts (root), on this machine, and writes the page about them.
# Usage: bench/bootstrap/run.sh BUILD_FOLDER > docs/results/bootstrap.md
set -euo pipefail
bench="$1/bench/bench_meeting"
cat <<'HEAD'
# How long many ranks take to meet

`bench/bootstrap/run.sh build/release > docs/results/bootstrap.md`: the bootstrap alone. Each host is a process that gives itself a host id; its ranks are
threads. A rank gives 512 bytes in the first all-gather and 64 in each of nine more, about what an init does over hosts. All of it shares
HEAD
echo "$(nproc) cores ($(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2- | xargs)). Medians of 5, with least and most."
cat <<'HEAD'

| ranks | hosts | ids | all-gathers | ms to the first table | ms to the last | KiB per rank at the most | MiB per host at the most | MiB of the root's process |
|---|---|---|---|---|---|---|---|---|
HEAD
"$bench" --ranks 8 --hosts 2
"$bench" --ranks 64 --hosts 8
"$bench" --ranks 256 --hosts 32
"$bench" --ranks 1024 --hosts 32
"$bench" --ranks 1024 --hosts 32 --ids 4
"$bench" --ranks 1024 --hosts 128
SCCL_HOST_FANOUT=65536 "$bench" --ranks 1024 --hosts 32 | sed 's/^| 1024 | 32 |/| 1024 | 32, no leaders (`SCCL_HOST_FANOUT=65536`) |/'
cat <<'TAIL'

A rank holds the table of the round (here 520 bytes for every rank) as it came and once more taken apart; nothing else grows with the number of ranks. The
root's process holds one table for all, and a connection for each leader.

## A communicator's whole init over hosts

`bench/bootstrap/init_hosts.sh`, as root: network namespaces of the same machine, a process for each rank, UCX over TCP. The slowest rank's time of
`ncclCommInitRank`.

TAIL
"$(dirname "$0")/init_hosts.sh" "$1"
