"""Send and receive: tags, any source, sizes, order, many at a time; and monitored_barrier."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import ranks as testing


def exchange(rank, ranks):
    for count in (0, 1, 100, 4096, 5000, 300_000, 3_000_000):  # within a frame, and read from the peer's memory
        outgoing = [torch.full((count,), float(rank * 10 + other)) for other in range(ranks)]
        incoming = [torch.empty(count) for _ in range(ranks)]
        requests = [dist.isend(outgoing[other], other) for other in range(ranks) if other != rank]
        requests += [dist.irecv(incoming[other], other) for other in range(ranks) if other != rank]
        for request in requests:
            request.wait()
        for other in range(ranks):
            if other != rank:
                assert (incoming[other] == other * 10 + rank).all(), (count, other)


def test_messages_of_all_sizes():
    testing.values(testing.run(exchange, 3))


def tags(rank, ranks):
    if rank == 0:
        dist.send(torch.tensor([1.0]), 1, tag=7)
        late = dist.isend(torch.full((100_000,), 2.0), 1, tag=8)
        for i in range(200):
            dist.isend(torch.tensor([float(i)]), 1, tag=1000 + i)
        late.wait()
    elif rank == 1:
        large = torch.empty(100_000)
        dist.recv(large, 0, tag=8)
        small = torch.empty(1)
        dist.recv(small, 0, tag=7)
        assert small.item() == 1 and (large == 2).all()
        for i in reversed(range(200)):
            dist.recv(small, 0, tag=1000 + i)
            assert small.item() == i


def test_tags_choose_whatever_the_order_of_arrival():
    testing.values(testing.run(tags, 2))


def any_source(rank, ranks):
    seen = []
    for count in (3, 100_000):
        for receiver in range(ranks):
            if receiver == rank:
                for _ in range(ranks - 1):
                    tensor = torch.empty(count)
                    source = dist.recv(tensor)
                    assert (tensor == source).all(), (source, tensor)
                    seen.append(source)
            else:
                dist.send(torch.full((count,), float(rank)), receiver)
    assert sorted(seen) == sorted([other for other in range(ranks) if other != rank] * 2), seen


def test_receives_from_any_source():
    testing.values(testing.run(any_source, 4))


def strided(rank, ranks):
    if rank == 0:
        dist.send(torch.arange(12.0).reshape(3, 4).t(), 1)
    else:
        tensor = torch.zeros(4, 6)[:, ::2]
        dist.recv(tensor, 0)
        assert torch.equal(tensor, torch.arange(12.0).reshape(3, 4).t()), tensor


def test_messages_of_tensors_that_are_not_contiguous():
    testing.values(testing.run(strided, 2))


def nobody_waits(rank, ranks):
    """The progress of transfers does not depend on somebody who waits for them."""
    count = 200_000
    tensor = torch.full((count,), float(rank))
    received = torch.empty(count)
    requests = [dist.isend(tensor, 1 - rank), dist.irecv(received, 1 - rank)]
    deadline = time.monotonic() + 30
    if rank == 0:
        while not all(request.is_completed() for request in requests) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert all(request.is_completed() for request in requests)
    else:
        time.sleep(0.5)
        assert received[0].item() == 0, "nobody made it arrive"
    for request in requests:
        request.wait()


def test_transfers_complete_while_nobody_waits():
    testing.values(testing.run(nobody_waits, 2))


def callbacks(rank, ranks):
    """A callback waits for another message by that message's future, whose callback waits for a third one."""
    other, count = 1 - rank, 100_000
    tensors = [torch.empty(count) for _ in range(3)]
    received = [dist.irecv(tensor, other, tag=tag) for tag, tensor in enumerate(tensors)]
    futures = [work.get_future() for work in received]

    def then_wait(future):
        return lambda done: future.wait()
    chained = [futures[0].then(then_wait(futures[1].then(then_wait(futures[2])))), futures[2].then(lambda done: "last")]
    for tag in range(3):
        dist.send(torch.full((count,), float(tag)), other, tag=tag)
    for future in chained:
        future.wait()
    assert all((tensor == tag).all() for tag, tensor in enumerate(tensors))


def test_callbacks_of_messages_may_wait_for_messages():
    testing.values(testing.run(callbacks, 2))


def batches(rank, ranks):
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    received = torch.empty(10_000)
    operations = [dist.P2POp(dist.isend, torch.full((10_000,), float(rank)), right), dist.P2POp(dist.irecv, received, left)]
    for request in dist.batch_isend_irecv(operations):
        request.wait()
    assert (received == left).all()


def test_batches():
    testing.values(testing.run(batches, 3))


def goodbye(rank, ranks):
    """What was sent before a rank left arrives."""
    dist.barrier()  # the store may go with rank 0, and all are past needing it now
    if rank == 0:
        for i in range(300):
            dist.isend(torch.full((2000,), float(i)), 1)
        dist.destroy_process_group()
        return
    time.sleep(0.5)
    tensor = torch.empty(2000)
    for i in range(300):
        dist.recv(tensor, 0)
        assert (tensor == i).all()
    dist.destroy_process_group()


def test_messages_of_a_rank_that_has_left_arrive():
    testing.values(testing.run(goodbye, 2))


def unequal(rank, ranks, count):
    if rank == 0:
        dist.send(torch.ones(count), 1)
        return
    dist.recv(torch.empty(count + 1), 0)


def test_unequal_sizes_are_told_with_both():
    _, receiver = testing.run(unequal, 2, 10)
    assert receiver[0] == "raised" and "sent 40 bytes" in receiver[1] and "receives 44" in receiver[1], receiver
    sender, receiver = testing.run(unequal, 2, 100_000)
    for kind, text in (sender, receiver):
        assert kind == "raised" and "400000" in text and "400004" in text, text


def nothing_comes(rank, ranks):
    if rank == 1:
        began = time.monotonic()
        try:
            dist.irecv(torch.empty(3), 0).wait(timedelta(milliseconds=300))
        except RuntimeError as error:
            assert "Timed out waiting 300ms" in str(error) and "rank 0" in str(error), error
            assert time.monotonic() - began >= 0.3
        else:
            raise AssertionError("a message arrived that nobody sent")
    dist.barrier()
    tensor = torch.full((3,), float(rank))  # the receive that was given up takes nothing
    if rank == 0:
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)
        assert (tensor == 0).all()


def test_a_receive_times_out_and_takes_nothing_later():
    testing.values(testing.run(nothing_comes, 2))


def monitored(rank, ranks, absent, name_all):
    group = dist.new_group(list(range(ranks)))
    group.monitored_barrier(timedelta(seconds=30))
    if rank in absent:
        time.sleep(2)
        return "absent"
    try:
        group.monitored_barrier(timedelta(seconds=1), wait_all_ranks=name_all)
    except RuntimeError as error:
        return str(error)
    return "passed"


def test_monitored_barrier_names_who_is_missing():
    texts = testing.values(testing.run(monitored, 4, (1, 3), True))
    assert "Ranks 1, 3 failed to pass monitoredBarrier" in texts[0], texts
    assert "Rank 2 successfully reached monitoredBarrier" in texts[2] and "Ranks 1, 3" in texts[2], texts
    texts = testing.values(testing.run(monitored, 3, (2,), False))
    assert "Rank 2 failed to pass monitoredBarrier" in texts[0], texts
    assert testing.values(testing.run(monitored, 3, (), False)) == ["passed"] * 3


if __name__ == "__main__":
    testing.main(globals())
