"""Starts the ranks of a trial as processes and tells what was wrong."""
import multiprocessing
import os
import socket
import subprocess
import sys

LIMIT_S = 300


def run(rank_main, unique_id):
    """Runs rank_main(rank, ranks, unique_id, answers) at each of the ranks that the command line asks for (3 without a number).
    A rank puts its number, the names of the checks that failed and the number of all its checks into `answers`.
    Returns the exit code: 0 when nothing was wrong."""
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    multiprocessing.set_start_method("spawn")
    answers = multiprocessing.Queue()
    processes = [multiprocessing.Process(target=rank_main, args=(rank, ranks, unique_id, answers)) for rank in range(ranks)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    wrong = [f"rank {rank}: {name}" for rank, names, _ in found for name in names]
    print(f"{ranks} ranks, {sum(count for _, _, count in found)} checks, wrong: {', '.join(wrong) or 'none'}")
    return 1 if wrong or any(process.exitcode for process in processes) else 0


def run_programs(work, environment=None):
    """For frameworks that want a program for each rank: starts this program again for each of the ranks that its command line
    asks for, [RANKS [DEVICES]] (2 ranks on one device without), and exits. In these programs it exits with
    work(rank, ranks, devices, port), `port` being free for their meeting. What rank 0 prints comes last."""
    if sys.argv[1:2] == ["--rank"]:
        sys.exit(work(*map(int, sys.argv[2:6])))
    asked = list(map(int, sys.argv[1:3]))
    ranks, devices = asked + [2, 1][len(asked):]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    workers = [subprocess.Popen([sys.executable, sys.argv[0], "--rank", str(rank), str(ranks), str(devices), str(port)],
                                env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE if rank == 0 else None, text=True)
               for rank in range(ranks)]
    try:
        print(workers[0].communicate(timeout=LIMIT_S)[0], end="")
        sys.exit(max(abs(worker.wait(timeout=LIMIT_S)) for worker in workers))
    finally:
        for worker in workers:
            worker.kill()
