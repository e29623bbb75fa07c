"""torch.distributed over two and three hosts: messages in all forms, barriers that name who is missing, groups that cross
hosts, what is built upon it, and what is told when a rank or a host is lost."""
import os
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # PyTorch says that hosts without name service have no names
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import frameworks_test as frameworks
import messages_test as messages
import ranks as testing
from hosts import Hosts, PORT, main_or_skip

TWO = [0, 1, 1]  # hosts of the ranks: uneven
THREE = [0, 1, 2, 1, 0, 1]


def over(host_of, function, *arguments, **options):
    with Hosts(max(host_of) + 1) as hosts:
        return testing.run(function, len(host_of), *arguments, hosts=hosts, host_of=host_of, **options)


def both(function, *arguments):
    """Over two and over three hosts; every rank returns."""
    for host_of in (TWO, THREE):
        testing.values(over(host_of, function, *arguments))


def all_forms(rank, ranks):
    messages.exchange(rank, ranks)
    messages.any_source(rank, ranks)
    dist.barrier()  # a rank that is done would send its batch to a peer that still takes messages of any source
    messages.batches(rank, ranks)
    dist.barrier()
    if rank < 2:
        messages.tags(rank, 2)
        messages.strided(rank, 2)
    dist.barrier()


def test_messages_of_all_forms():
    both(all_forms)


def objects(rank, ranks):
    if hasattr(dist, "send_object_list"):
        pass_objects(rank, ranks)
    gathered = [None] * ranks
    dist.all_gather_object(gathered, ("of", rank))
    assert gathered == [("of", other) for other in range(ranks)]
    parts = [torch.empty(70_000) for _ in range(ranks)] if rank == 1 else None
    dist.gather(torch.full((70_000,), float(rank)), parts, dst=1)
    assert rank != 1 or all((part == other).all() for other, part in enumerate(parts))
    mine = torch.empty(3)
    dist.scatter(mine, [torch.full((3,), float(other)) for other in range(ranks)] if rank == ranks - 1 else None, src=ranks - 1)
    assert (mine == rank).all()


def pass_objects(rank, ranks):
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    sent = [{"rank": rank, "text": "x" * 100_000}, None, list(range(rank))]
    received = [None] * 3
    if rank % 2 == 0 and not (ranks % 2 == 1 and rank == ranks - 1):
        dist.send_object_list(sent, right)
        dist.recv_object_list(received, left)
    else:
        dist.recv_object_list(received, left)
        dist.send_object_list(sent, right)
    assert received[0]["rank"] == left and len(received[0]["text"]) == 100_000 and received[2] == list(range(left)), received


def test_objects_gather_and_scatter():
    both(objects)


def subsets(rank, ranks):
    """Groups within a host, over all hosts, and by splitting, each with messages of its own."""
    for members in ([1, ranks - 1], [0, ranks - 1], list(range(ranks))):
        group = dist.new_group(members)
        if rank not in members:
            continue
        place = dist.get_group_rank(group, rank)
        following, before = members[(place + 1) % len(members)], members[place - 1]
        for count in (5, 50_000):
            tensor, received = torch.full((count,), float(rank)), torch.empty(count)
            requests = [dist.isend(tensor, following, group=group, tag=count), dist.irecv(received, before, group=group, tag=count)]
            for request in requests:
                request.wait()
            assert (received == before).all()
        group.monitored_barrier(timedelta(seconds=30))
        dist.destroy_process_group(group)
    if frameworks.runs_here((2, 7)):
        half = dist.split_group(split_ranks=[[0, ranks - 1], list(range(1, ranks - 1))])
        tensor = torch.full((50_000,), float(rank))
        if rank == 0:
            dist.send(tensor, ranks - 1, group=half)
        elif rank == ranks - 1:
            dist.recv(tensor, 0, group=half)
            assert (tensor == 0).all()
    dist.barrier()


def test_groups_that_cross_hosts():
    both(subsets)


def test_monitored_barrier_names_who_is_missing_and_where():
    texts = testing.values(over(THREE, messages.monitored, (1, 4), True))
    assert "Ranks 1, 4 failed to pass monitoredBarrier" in texts[0] and "rank 1 on host b" in texts[0], texts
    assert "Rank 2 successfully reached monitoredBarrier" in texts[2] and "Ranks 1, 4" in texts[2], texts
    assert testing.values(over(TWO, messages.monitored, (), False)) == ["passed"] * 3


def test_transfers_complete_while_nobody_waits():
    testing.values(over([0, 1], messages.nobody_waits))


def test_messages_of_a_rank_that_has_left_arrive():
    testing.values(over([0, 1], messages.goodbye))


def few_and_gone(rank, ranks):
    """The receiver does not look at its messages before the sender has gone."""
    dist.barrier()
    if rank == 0:
        for i in range(3):
            dist.isend(torch.full((2000,), float(i)), 1)
    else:
        time.sleep(4)
        for i in range(3):
            tensor = torch.empty(2000)
            dist.recv(tensor, 0)
            assert (tensor == i).all()
    dist.destroy_process_group()


def test_a_first_message_arrives_at_a_rank_that_computes():
    with Hosts(2) as hosts:
        testing.values(testing.run(few_and_gone, 2, hosts=hosts, host_of=[0, 1]))
    testing.values(testing.run(few_and_gone, 2))  # on one host likewise


def test_unequal_sizes_and_times_are_told():
    sender, receiver = over([0, 1], messages.unequal, 100_000)
    for kind, text in (sender, receiver):
        assert kind == "raised" and "400000" in text and "400004" in text, text
    assert "rank 1 on host b" in sender[1] and "rank 0 on host a" in receiver[1], (sender, receiver)
    testing.values(over([0, 1], messages.nothing_comes))


def withdrawn(rank, ranks):
    """A long message whose sender gave it up does not stop the ones that follow."""
    if rank == 0:
        try:
            dist.isend(torch.full((1_000_000,), 7.0), 1).wait(timedelta(milliseconds=300))
        except RuntimeError as error:
            assert "Timed out waiting 300ms for send to rank 1 on host b" in str(error), error
        dist.send(torch.full((1_000_000,), 8.0), 1)
    else:
        time.sleep(1.5)
        tensor = torch.empty(1_000_000)
        dist.recv(tensor, 0)
        assert (tensor == 8).all(), tensor


def test_a_message_that_was_given_up_is_not_received():
    testing.values(over([0, 1], withdrawn))


def frameworks_over_hosts(rank, ranks, folder):
    frameworks.pipelines(rank, ranks)
    frameworks.zero(rank, ranks)
    frameworks.functional(rank, ranks)
    frameworks.tensors_over_a_mesh(rank, ranks)
    if frameworks.runs_here((2, 7)):
        frameworks.checkpoints(rank, ranks, folder)


def test_what_is_built_upon_it():
    if not frameworks.runs_here((2, 6)):
        return
    with tempfile.TemporaryDirectory() as folder:
        for hosts, host_of in ((2, [0, 1, 1, 1]), (3, [0, 1, 2, 1])):
            testing.values(over(host_of, frameworks_over_hosts, os.path.join(folder, str(hosts))))


def survivor(rank, ranks, call, victim):
    dist.barrier()
    warm = torch.zeros(1)
    if rank == victim:
        dist.isend(warm, 0)
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 0:
        dist.recv(warm, victim)
    tensor = torch.ones(100_000)
    try:
        if call == "recv":
            dist.recv(tensor, victim)
        elif call == "any":
            dist.recv(tensor)
        elif call == "send":
            dist.send(tensor, victim)
        else:
            dist.all_reduce(tensor)
            dist.all_reduce(tensor)
    except RuntimeError as error:
        return str(error), time.time()
    return "nothing was raised", 0


def test_a_killed_rank_of_another_host_is_named():
    for call in ("recv", "any", "send", "all_reduce"):
        outcomes = over(TWO, survivor, call, 2)
        assert outcomes[2][0] == "killed", outcomes
        for rank in (0, 1):
            kind, value = outcomes[rank]
            text = value[0] if kind == "returned" else value
            assert kind == "returned" and "rank 2" in text and "Timed out" not in text, (call, outcomes)
        assert call == "all_reduce" or "rank 2 on host b has ended" in outcomes[0][1][0], outcomes


def cut_off(rank, ranks, ready):
    tensor = torch.ones(3_000_000)
    dist.barrier()
    dist.send(tensor, 1 - rank) if rank == 0 else dist.recv(tensor, 1 - rank)
    with open(f"{ready}{rank}", "w", encoding="ascii"):
        pass
    began = time.monotonic()
    try:
        if rank == 0:
            dist.recv(tensor, 1)
        else:
            time.sleep(1)  # now what is sent stays unanswered
            while True:
                dist.send(tensor[:100], 0)
                time.sleep(0.05)
    except RuntimeError as error:
        return str(error), time.monotonic() - began
    return "nothing was raised", 0


def test_a_lost_host_is_told():
    with Hosts(2) as hosts, tempfile.TemporaryDirectory() as folder:
        ready = os.path.join(folder, "ready")

        def pull(_):
            if os.path.exists(ready + "0") and os.path.exists(ready + "1"):
                time.sleep(0.3)
                hosts.set_link(1, "down")
                return True
            return False
        outcomes = testing.run(cut_off, 2, ready, hosts=hosts, host_of=[0, 1], meanwhile=pull)
    for rank, other in ((0, "rank 1 on host b"), (1, "rank 0 on host a")):
        kind, value = outcomes[rank]
        assert kind == "returned" and other in value[0] and "SCCL_HOST_TIMEOUT_MS" in value[0], outcomes


def busy_receiver(rank, ranks):
    """A rank that does not take what it is sent, for longer than a host's silence is borne, is no lost host."""
    count = 3000  # of 16 kB each: more than the sockets hold
    if rank == 0:
        for i in range(count):
            dist.isend(torch.full((4000,), float(i)), 1)
        dist.barrier()
    else:
        time.sleep(8)
        tensor = torch.empty(4000)
        for i in range(count):
            dist.recv(tensor, 0)
            assert (tensor == i).all()
        dist.barrier()


def test_a_receiver_that_computes_for_long_is_not_lost():
    testing.values(over([0, 1], busy_receiver))


AGENT = """
    import datetime, os, signal, sys
    import torch, torch.distributed as dist
    import sccl.torch
    dist.init_process_group("sccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    attempt = sys.argv[1]  # a file that says that somebody was killed
    for step in range(20):
        tensor, received = torch.full((1000 * step,), float(rank)), torch.empty(1000 * step)
        requests = [dist.isend(tensor, (rank + 1) % ranks), dist.irecv(received, (rank - 1) % ranks)]
        if step == 10 and rank == 1 and not os.path.exists(attempt):
            open(attempt, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        for request in requests:
            request.wait()
        assert (received == (rank - 1) % ranks).all()
        dist.all_reduce(tensor)
    dist.new_group(list(range(ranks))).monitored_barrier(datetime.timedelta(seconds=60))
    print("finished on", os.uname().nodename, "after a kill" if os.path.exists(attempt) else "at once", flush=True)
    dist.destroy_process_group()
"""


def test_torchrun_with_an_agent_on_each_host_restarts_after_a_kill():
    if not frameworks.runs_here((2, 0)):
        return
    with Hosts(2) as hosts, tempfile.TemporaryDirectory() as folder:
        program, attempt = os.path.join(folder, "program.py"), os.path.join(folder, "killed")
        with open(program, "w", encoding="ascii") as file:
            file.write(textwrap.dedent(AGENT))
        agents = [hosts.start(host, [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=2",
                                     "--max_restarts=2", "--rdzv_backend=c10d", f"--rdzv_endpoint={hosts.address(0)}:{PORT}",
                                     "--rdzv_id=hosts", f"--local_addr={hosts.address(host)}", program, attempt],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for host in range(2)]
        try:
            outputs = [agent.communicate(timeout=150) for agent in agents]
        finally:
            for agent in agents:
                agent.kill()
    for agent, (out, err) in zip(agents, outputs):
        assert agent.returncode == 0 and out.count("after a kill") == 2, (out, err[-3000:])


if __name__ == "__main__":
    main_or_skip(globals())
