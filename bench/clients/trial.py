"""Starts the ranks of a trial as processes and tells what was wrong."""
import multiprocessing
import sys


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
