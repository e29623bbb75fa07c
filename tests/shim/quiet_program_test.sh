#!/usr/bin/env bash
# Why a call failed reaches the user of a program that cannot ask for it, once for each text; and the library tells its
# version in NCCL's words, in the log and in an ELF note.
set -euo pipefail
quiet=$1 asking=$2 library=$3 version=$4
unset NCCL_DEBUG NCCL_DEBUG_FILE
fail() { echo "FAILED: $1"; echo "$2"; exit 1; }
text=$("$quiet" 2>&1 >/dev/null) || fail "the program's calls did not fail" "$text"
[ "$(grep -c '^libsccl: ncclCommInitRank: ' <<<"$text")" = 1 ] || fail "the cause of a failed init is told once" "$text"
[ "$(grep -c '^libsccl: ncclCommCount: ' <<<"$text")" = 1 ] || fail "another cause is told, too" "$text"
text=$(NCCL_DEBUG=NONE "$quiet" 2>&1 >/dev/null)
! grep -q libsccl: <<<"$text" || fail "who sets NCCL_DEBUG decides what is said" "$text"
text=$("$asking" 2>&1 >/dev/null)
! grep -q '^libsccl:' <<<"$text" || fail "a program that asks gets its answer only" "$text"
grep -q '^asked: .' <<<"$text" || fail "the asking program has an answer" "$text"
text=$(NCCL_DEBUG=VERSION "$quiet" 2>/dev/null)
[ "$text" = "NCCL version $version" ] || fail "the version line stands alone at VERSION" "$text"
for level in WARN INFO TRACE; do
  text=$(NCCL_DEBUG=$level "$quiet" 2>/dev/null)
  [ "$(grep -cx "NCCL version $version" <<<"$text")" = 1 ] || fail "the version line is there once at $level" "$text"
done
text=$(readelf -p .note.libsccl "$library")
grep -q "$version" <<<"$text" || fail "the ELF note tells the version" "$text"
