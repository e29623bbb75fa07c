// The table of environment variables, by name: NCCL's variables, each with what this version does with it, and our own.
#include <algorithm>
#include <array>
#include <functional>

#include "base/settings/env.h"

namespace sccl::env {
namespace {

constexpr Handling kHonoured = Handling::honoured;
constexpr Handling kBounded = Handling::bounded;
constexpr Handling kIgnored = Handling::ignored;

// For ignored variables `fallback` is NCCL's default.
constexpr auto kTable = std::to_array<Variable>({
    {"NCCL_ALGO", "list, ^ negates, or function:list;...", "all", kBounded,
     "Where only Ring or only Tree is left, as SCCL_ALGO=ring or trees; other algorithms of the original do not exist "
     "here."},
    {"NCCL_BLOCKING_WAIT", "0 | 1", "0", kIgnored, "PyTorch's: its waits block; nothing for the library to do."},
    {"NCCL_BUFFSIZE", "bytes", "4194304", kBounded, "Buffer of a channel: bounds all slots of a connection together."},
    {"NCCL_CGA_CLUSTER_SIZE", "0 .. 8", "4", kIgnored, "Blocks of a kernel that are scheduled as one cluster."},
    {"NCCL_CHECK_MODE", "DEFAULT | DEBUG_LOCAL | DEBUG_GLOBAL", "DEFAULT", kIgnored,
     "Checks of arguments among ranks; always on here."},
    {"NCCL_CHECK_POINTERS", "0 | 1", "0", kIgnored, "Checks that buffers lie on the right device."},
    {"NCCL_COLLNET_ENABLE", "0 | 1", "0", kIgnored, "Reductions inside the network's switches."},
    {"NCCL_COMM_BLOCKING", "0 | 1", "unset", kHonoured, "Overrides the configuration's `blocking`."},
    {"NCCL_COMM_ID", "host:port", "unset", kHonoured, "Fixed address of the root; rank 0 opens it."},
    {"NCCL_COMM_SHRINK_SHARE_RESOURCES", "0 | 1", "unset", kIgnored,
     "A shrunk communicator shares its parent's resources."},
    {"NCCL_COMM_SPLIT_SHARE_RESOURCES", "0 | 1", "unset", kIgnored,
     "A split communicator shares its parent's resources."},
    {"NCCL_CONF_FILE", "path", "~/.nccl.conf", kHonoured,
     "File of lines NAME=VALUE, before /etc/nccl.conf; the environment wins over both."},
    {"NCCL_CROSS_NIC", "0 | 1 | 2", "2", kHonoured,
     "1: NICs of different networks of two hosts are joined, too, where those of one network are not at both."},
    {"NCCL_CTA_POLICY", "DEFAULT | EFFICIENCY | ZERO", "DEFAULT", kHonoured,
     "The latter two: 8 blocks a kernel at most, unless NCCL_MAX_CTAS says otherwise."},
    {"NCCL_CUMEM_ENABLE", "0 | 1", "auto", kHonoured,
     "Device buffers are shared by the driver's virtual memory calls, else by its IPC handles."},
    {"NCCL_CUMEM_HOST_ENABLE", "0 | 1", "auto", kIgnored, "Host buffers from the driver's virtual memory calls."},
    {"NCCL_DEBUG", "VERSION | WARN | INFO | ABORT | TRACE", "none", kHonoured,
     "What is printed; no line is of level VERSION or ABORT alone."},
    {"NCCL_DEBUG_FILE", "path with %h, %p", "stdout", kHonoured,
     "Where it is printed: %h is the host, %p the process."},
    {"NCCL_DEBUG_SUBSYS", "list, ^ negates", "INIT,BOOTSTRAP,ENV", kHonoured,
     "Which parts print at INFO; TUNING tells which schedule serves."},
    {"NCCL_DMABUF_ENABLE", "0 | 1", "1", kIgnored, "Registration of device memory with a NIC by DMA-BUF."},
    {"NCCL_ENV_PLUGIN", "name, path, none", "unset", kIgnored, "Plugin that supplies values of variables."},
    {"NCCL_GIN_PLUGIN", "name, path, none", "unset", kIgnored, "Plugin for networking begun by the device."},
    {"NCCL_GRAPH_DUMP_FILE", "path", "none", kIgnored, "Where the original writes its rings and trees."},
    {"NCCL_GRAPH_FILE", "path", "none", kIgnored, "Rings and trees to use instead of a search."},
    {"NCCL_GRAPH_MIXING_SUPPORT", "0 | 1", "1", kIgnored, "Captured and direct launches at the same time."},
    {"NCCL_GRAPH_REGISTER", "0 | 1", "1", kIgnored, "Registration of buffers of captured graphs."},
    {"NCCL_HOSTID", "text", "host name and boot id", kHonoured, "Ranks of equal ids share memory."},
    {"NCCL_IB_ADAPTIVE_ROUTING", "0 | 1", "auto", kIgnored, "InfiniBand: packets may take several paths."},
    {"NCCL_IB_DISABLE", "0 | 1", "0", kIgnored, "InfiniBand is not used."},
    {"NCCL_IB_GID_INDEX", "number", "-1", kIgnored, "InfiniBand: index of the global id (RoCE)."},
    {"NCCL_IB_HCA", "list, ^ excludes, = exact", "all", kHonoured, "Which devices of a net plugin are used."},
    {"NCCL_IB_MERGE_NICS", "0 | 1", "1", kIgnored, "InfiniBand: ports of one card act as one NIC."},
    {"NCCL_IB_PCI_RELAXED_ORDERING", "0 | 1 | 2", "2", kIgnored, "InfiniBand: PCI writes may pass each other."},
    {"NCCL_IB_QPS_PER_CONNECTION", "number", "1", kIgnored, "InfiniBand: queue pairs of a connection."},
    {"NCCL_IB_RETRY_CNT", "number", "7", kIgnored, "InfiniBand: repetitions before a send fails."},
    {"NCCL_IB_SL", "number", "0", kIgnored, "InfiniBand: service level."},
    {"NCCL_IB_SPLIT_DATA_ON_QPS", "0 | 1", "0", kIgnored, "InfiniBand: a message is spread over all queue pairs."},
    {"NCCL_IB_TC", "number", "0", kIgnored, "InfiniBand: traffic class."},
    {"NCCL_IB_TIMEOUT", "number", "20", kIgnored, "InfiniBand: exponent of the acknowledgement's time limit."},
    {"NCCL_IGNORE_CPU_AFFINITY", "0 | 1", "0", kIgnored, "Helper threads may run on any core; none are bound here."},
    {"NCCL_IPC_USE_ABSTRACT_SOCKET", "0 | 1", "1", kIgnored, "Handles travel over sockets without a file."},
    {"NCCL_LAUNCH_MODE", "PARALLEL | GROUP", "by case", kIgnored, "How kernels of several devices are launched."},
    {"NCCL_LAUNCH_ORDER_IMPLICIT", "0 | 1", "0", kIgnored, "Kernels of several communicators keep the host's order."},
    {"NCCL_LAUNCH_RACE_FATAL", "0 | 1", "1", kIgnored, "Launches that race between threads are errors."},
    {"NCCL_LL128_BUFFSIZE", "bytes", "4915200", kIgnored, "Buffer of the original's LL128 protocol."},
    {"NCCL_LL_BUFFSIZE", "bytes", "524288", kIgnored, "Buffer of the original's LL protocol."},
    {"NCCL_LOCAL_REGISTER", "0 | 1", "1", kIgnored, "Registration of user buffers on request."},
    {"NCCL_MAX_CTAS", "1 .. 64", "24", kHonoured,
     "Most blocks of a kernel on a device; before maxCTAs of the configuration."},
    {"NCCL_MAX_NCHANNELS", "number", "unset", kHonoured, "Older name of NCCL_MAX_CTAS."},
    {"NCCL_MAX_P2P_NCHANNELS", "number", "unset", kIgnored, "Most channels of sends and receives."},
    {"NCCL_MIN_CTAS", "1 .. 64", "1", kHonoured,
     "Raises the most blocks of a kernel; before minCTAs of the configuration."},
    {"NCCL_MIN_NCHANNELS", "number", "unset", kHonoured, "Older name of NCCL_MIN_CTAS."},
    {"NCCL_MIN_P2P_NCHANNELS", "number", "unset", kIgnored, "Fewest channels of sends and receives."},
    {"NCCL_MNNVL_ENABLE", "0 | 1 | 2", "2", kIgnored, "NVLink between hosts."},
    {"NCCL_MULTI_RANK_GPU_ENABLE", "0 | 1", "0", kIgnored, "Several ranks on one device; always allowed here."},
    {"NCCL_NET", "name", "best", kHonoured,
     "Network between hosts: a plugin's, or UCX; IB and Socket, which are the original's own, are passed over."},
    {"NCCL_NET_GDR_LEVEL", "LOC .. SYS", "PXB", kBounded,
     "LOC or 0: no NIC accesses device memory. Other distances are not looked at: each NIC may that can "
     "(multihost.md)."},
    {"NCCL_NET_GDR_READ", "0 | 1", "1 with NVLink", kIgnored, "NICs also read from device memory."},
    {"NCCL_NET_PLUGIN", "list of names or paths, none", "libnccl-net.so", kHonoured,
     "Network plugins between hosts, of versions 6 to 12; the first that works is used, and nothing else."},
    {"NCCL_NSOCKS_PERTHREAD", "number", "1", kIgnored, "TCP network: sockets of a thread."},
    {"NCCL_NTHREADS", "64 .. 640", "512", kIgnored, "Threads of a block."},
    {"NCCL_NVLS_ENABLE", "0 | 1 | 2", "2", kIgnored, "Multicast and reductions in NVSwitch."},
    {"NCCL_NVLS_NCHANNELS", "number", "unset", kIgnored, "Channels of these."},
    {"NCCL_OOB_NET_ENABLE", "0 | 1", "0", kIgnored, "The bootstrap goes over the fast network."},
    {"NCCL_OOB_NET_IFNAME", "prefixes, ^ excludes, = exact", "unset", kIgnored, "Its interfaces."},
    {"NCCL_P2P_DIRECT_DISABLE", "0 | 1", "0", kHonoured, "Ranks do not use one another's device buffers in place."},
    {"NCCL_P2P_DISABLE", "0 | 1", "0", kHonoured, "Devices reach each other through host memory only."},
    {"NCCL_P2P_LEVEL", "LOC | NVL | PIX | PXB | PHB | SYS, or 0 .. 5", "SYS", kHonoured,
     "Devices farther apart than this exchange data through host memory."},
    {"NCCL_P2P_NET_CHUNKSIZE", "bytes", "131072", kIgnored, "Sends and receives: chunk over a network."},
    {"NCCL_P2P_NVL_CHUNKSIZE", "bytes", "524288", kIgnored, "Sends and receives: chunk over NVLink."},
    {"NCCL_P2P_PCI_CHUNKSIZE", "bytes", "131072", kIgnored, "Sends and receives: chunk over PCI."},
    {"NCCL_PROFILER_PLUGIN", "path, suffix, none, STATIC_PLUGIN", "libnccl-profiler.so where it is found", kHonoured,
     "Profiler plugin (ncclProfiler_v1 to v6), told of groups, collectives, sends and receives (plugins.md)."},
    {"NCCL_PROTO", "list, ^ negates", "all", kBounded,
     "Where only LL, only Simple or LL128 without Simple is left, as SCCL_PROTO; ^LL128 leaves the choice open without "
     "ll128, and so does a list by function otherwise."},
    {"NCCL_PXN_DISABLE", "0 | 1", "0", kIgnored, "No NICs of other devices by way of NVLink."},
    {"NCCL_RAS_ENABLE", "0 | 1", "1", kIgnored, "Status server; none is opened here."},
    {"NCCL_RUNTIME_CONNECT", "0 | 1", "1", kIgnored, "Connections are made at first use."},
    {"NCCL_SHM_DISABLE", "0 | 1", "0", kBounded,
     "Refuses devices that would need host memory between them; ranks still meet through shared memory."},
    {"NCCL_SOCKET_FAMILY", "AF_INET | AF_INET6", "any", kHonoured, "Address family of the bootstrap."},
    {"NCCL_SOCKET_IFNAME", "prefixes, ^ excludes, = exact", "all, docker and lo last", kHonoured,
     "Interfaces of the bootstrap."},
    {"NCCL_SOCKET_NTHREADS", "number", "1", kIgnored, "TCP network: threads of a connection."},
    {"NCCL_SOCKET_RETRY_CNT", "number", "34", kHonoured, "Repetitions while the root cannot be reached."},
    {"NCCL_SOCKET_RETRY_SLEEP_MSEC", "milliseconds", "100", kHonoured, "Pause before each repetition."},
    {"NCCL_TOPO_DUMP_FILE", "path", "none", kHonoured,
     "Into this file the machine is written at communicator init, in NCCL's XML, with the job's devices only."},
    {"NCCL_TOPO_DUMP_FILE_RANK", "number", "0", kHonoured, "Rank that writes it."},
    {"NCCL_TOPO_FILE", "path", "virtualTopology.xml of the system", kHonoured,
     "The machine in NCCL's XML, completed by what is found on devices; without devices rehearsed as with SCCL_TOPO, "
     "which "
     "goes first. The first rank's of each host counts."},
    {"NCCL_TUNER_PLUGIN", "path, suffix, none, STATIC_PLUGIN", "libnccl-tuner.so where it is found", kHonoured,
     "Tuner plugin (ncclTunerPlugin_v2 to v6), asked by rank 0 for every size class when a communicator is made; its "
     "answers go before what is measured, and SCCL_ALGO, SCCL_PROTO and their counterparts before its answers "
     "(plugins.md)."},
    {"NCCL_UID_STAGGER_RATE", "number", "7000", kIgnored, "Greetings a second the root shall get at most."},
    {"NCCL_UID_STAGGER_THRESHOLD", "number", "256", kIgnored, "Ranks from which greetings are spread over time."},
    {"NCCL_WIN_ENABLE", "0 | 1", "1", kHonoured, "Collectives use buffers in symmetric windows in place."},
    {"NCCL_WORK_FIFO_BYTES", "bytes", "1048576", kIgnored, "Queue from host to kernel."},
    {"SCCL_ALGO", "auto, planner, or collective:planner;...", "auto", kHonoured,
     "Planner of all or of the named collectives: ring, one-hop, all-pairs, recursive, binomial, shortest, two-hop; "
     "with SCCL_TOPO "
     "also trees, hybrid, three-phase, rings, detours, synth, even-trees, or one of these by its figures (trees/32); "
     "vendor is the "
     "vendor's "
     "library (SCCL_VENDOR)."},
    {"SCCL_ARRIVAL", "never | eager | leader | chain | auto", "never", kHonoured,
     "AllReduce, Reduce and ReduceScatter are reduced, on each host, by the ranks that are there (arrival.md). eager: "
     "over a fixed tree, with the same bits run after run. leader: by the rank that comes first, up to 4 MiB, or more "
     "where SCCL_MEM_LIMIT has room. chain: by each rank in turn as it comes. auto: as chain, where "
     "measured arrivals are far apart and trials show that it pays, for integers, min and max, and where SCCL_TUNE or "
     "SCCL_DISPATCH allow another order of sums."},
    {"SCCL_CACHE_DIR", "path", "$XDG_CACHE_HOME/sccl or ~/.cache/sccl", kHonoured,
     "Folder in which synthesized schedules are kept for all jobs on equivalent devices; measured times, too."},
    {"SCCL_CHUNK", "bytes, 4096 .. 16777216", "tuned", kHonoured,
     "Bytes of one slice of a chunk; through slots, a slot's at most."},
    {"SCCL_COMM_SECRET", "text of 16 bytes or more", "none", kHonoured,
     "Known to the ranks that NCCL_COMM_ID brings together and to nobody else; without it whoever knows the address "
     "may "
     "take part (security.md)."},
    {"SCCL_COMM_SECRET_FILE", "path of a file of mode 0600", "none", kHonoured,
     "Holds it; unlike a variable it is not seen in the environment of processes."},
    {"SCCL_COPY_ENGINE_BYTES", "auto | bytes", "0", kHonoured,
     "On devices: moves of so many bytes and more that do not reduce go through copy engines, ordered by streams; 0: "
     "none; "
     "auto: from where rank 0 measures them to be faster, once for each machine (kept in SCCL_CACHE_DIR)."},
    {"SCCL_DETERMINISTIC", "0 | 1", "0", kHonoured,
     "1: tuning never changes the order of a summation, so that results have the same bits run after run."},
    {"SCCL_DEVICE_MEM_LIMIT", "bytes", "268435456", kHonoured,
     "Most device memory of a communicator at one rank: slots, then channels are fewer until it holds them."},
    {"SCCL_DEVICE_PATH", "auto | kernels | streams", "auto", kHonoured,
     "On devices: whether calls are kernels that wait for peers, or ordered by streams; auto: by streams where "
     "processes "
     "share a device without CUDA's multi-process service."},
    {"SCCL_DIRECT", "0 | 1", "1", kHonoured,
     "0: no single-copy transfers between processes (process_vm_readv; mapped memory of ncclMemAlloc)."},
    {"SCCL_DISPATCH", "measured | model | learned", "measured", kHonoured,
     "Where the choice among schedules comes from: predictions corrected by measured times, predictions alone, or what "
     "`sccl tune` has learned."},
    {"SCCL_HOST_FANOUT", "number, 2 .. 65536", "64", kHonoured,
     "Up to this many ranks meet at the root itself, more through the leaders of their hosts. Up to this many leaders "
     "join the root itself, more form a tree. Up to this many hosts (rank 0's counts) are connected each with each, "
     "more on "
     "a grid."},
    {"SCCL_HOST_TIMEOUT_MS", "milliseconds, 100 .. 3600000", "4500", kHonoured,
     "A host of which its peers have not heard for so long is lost, for good. Rank 0's counts; while ranks meet, each "
     "rank's own."},
    {"SCCL_INIT_TIMEOUT_MS", "milliseconds", "120000", kHonoured,
     "Deadline of each step in which ranks wait for one another at communicator init."},
    {"SCCL_LIBRARY", "path", "the package's own", kHonoured,
     "Read by the Python package: the libsccl.so that it opens and preloads."},
    {"SCCL_MEM_LIMIT", "bytes", "32000000", kHonoured,
     "Most memory of a communicator at one rank: its slots shrink until it holds them. With SCCL_ARRIVAL=eager "
     "64000000 unless it is set; only calls of more than 16 MiB use more than half of it. Links to other hosts "
     "take memory beside it once messages come: for each rank of another host up to 48 slots of that size (32 with "
     "more than 8 ranks)."},
    {"SCCL_NET", "auto | plugin | ucx | none", "auto", kHonoured,
     "Engine between hosts: a net plugin that works, else UCX; or the named one alone; none: no communicator spans "
     "hosts."},
    {"SCCL_NIC_MBITS", "Mbit/s, 1 .. 10000000", "10000", kHonoured,
     "What a NIC of this host is taken for whose speed neither NCCL_TOPO_FILE nor the engine nor its driver tells. "
     "Ranks tell one another what they take."},
    {"SCCL_NVRTC", "file", "", kHonoured,
     "The CUDA run-time compiler to look at first; such as a libnvrtc.so.12 for devices that a newer one does not "
     "know."},
    {"SCCL_PLATFORM", "auto | host | cuda | hip", "auto", kHonoured,
     "auto: the device that is current at communicator init, else the host; the others: nothing else."},
    {"SCCL_PROTO", "auto | simple | ll | ll128 | direct", "auto", kHonoured,
     "Protocol: slots, short messages flagged throughout (ll), flagged lines of 128 bytes (between devices whose links "
     "keep them whole), or single copies."},
    {"SCCL_RSH", "command", "ssh", kHonoured,
     "What sccl run --hosts starts commands on hosts with; called as ssh is: its own words, the host, one command."},
    {"SCCL_SLOT_BYTES", "4096 .. 16777216", "131072", kHonoured,
     "Bytes of one slot, over hosts 258048 by default; a connection has four, that of short messages of rooted calls "
     "32 of a quarter."},
    {"SCCL_SPIN_US", "microseconds", "by ranks per core", kHonoured,
     "How long a waiting rank spins before it yields its core."},
    {"SCCL_STALL_NOTICE_MS", "milliseconds", "10000", kHonoured,
     "After this a waiting call says who is missing, and again every minute."},
    {"SCCL_STATUS", "0 | 1", "0", kHonoured,
     "1: sccl status PID shows this process's communicators, over a Unix socket."},
    {"SCCL_STREAM_BYTES", "bytes", "by the caches", kHonoured,
     "Calls whose buffers, of all ranks together, have so many or more write their results past the caches."},
    {"SCCL_SYNTH_MS", "milliseconds, 0: never", "20000", kHonoured,
     "Longest search for better schedules in the background of calls on named links (SCCL_TOPO)."},
    {"SCCL_TIMEOUT_MS", "milliseconds, 0: none", "none", kHonoured,
     "A call that waits longer ends with an error. Configurations of communicators and calls go before it "
     "(docs/call_options.md)."},
    {"SCCL_TOPO", "preset, preset:devices, JSON file, NCCL XML file", "unset", kHonoured,
     "The links that calls may use, to rehearse another machine or a part of it (dgx1v:0,1,4); goes before "
     "NCCL_TOPO_FILE "
     "and what is found. Rank 0's counts."},
    {"SCCL_TRACE", "path with %h, %p", "none", kHonoured,
     "Into this file every process writes when its ranks were in which call, for whom they waited and what served the "
     "call, for Chrome's and Perfetto's viewers (sccl trace merge). Without %p the host and the process are added to "
     "the name."},
    {"SCCL_TUNE", "load | off | online", "load", kHonoured,
     "Measured times of schedules and slices: those of SCCL_CACHE_DIR are used, none are, or new ones are taken (at "
     "most "
     "5% of calls) and kept. Who sets it allows other orders of summation, see SCCL_DETERMINISTIC."},
    {"SCCL_TUNE_TRACE", "path", "unset", kHonoured, "File into which rank 0 writes every time that tuning has taken."},
    {"SCCL_VENDOR", "auto | never | absolute path", "auto", kHonoured,
     "The vendor's library (NCCL, RCCL) beside this one, as one more algorithm (vendor.md). auto: on devices, where a "
     "libnccl.so.2 or librccl.so.1 is found. A path serves host memory, too, if that library does; if it cannot be "
     "used, "
     "calls that want it fail."},
    {"SCCL_VENDOR_TIMEOUT_MS", "milliseconds, 0: none", "60000", kHonoured,
     "A function of the vendor's library that takes longer is given up; in a call the time counts from when all ranks "
     "have come."},
});

// Strictly ascending: sorted, and no name twice.
static_assert(std::ranges::adjacent_find(kTable, std::ranges::greater_equal{}, &Variable::name) == kTable.end());

}  // namespace

std::span<const Variable> table() { return kTable; }

}  // namespace sccl::env
