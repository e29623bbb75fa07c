# For scripts of bench/, by `source`: hosts that are network namespaces of this machine (root).
#
#   make_hosts COUNT FOLDER   10.78.0.1, 10.78.0.2, ... on one bridge; their interface is eth0. Makes FOLDER/shell, which
#                             starts a command on a host as rsh does; a host has a name and System V objects of its own.
#   make_two_hosts FOLDER     the same without a bridge, which costs time of its own
#                             A host has Linux's default for TCP (cubic), unless this machine does not let namespaces
#                             have it: one that paces (bbr) measures that setting, too. Sets tcp to what the hosts have.
#   drop_hosts                for the script's EXIT trap
#   open_mpi_on HOSTS FOLDER  sets the array open_mpi: Open MPI's starter for HOSTS ("10.78.0.1:4,10.78.0.2:4")

space=sccl$$
host_count=0

drop_hosts() {
  local host
  for ((host = 0; host <= host_count; host++)); do ip netns del "${space}h$host" 2>/dev/null || true; done
}

make_hosts() {
  local host
  host_count=$1
  ip netns add "${space}h0"  # the bridge's
  ip -n "${space}h0" link add name bridge type bridge
  ip -n "${space}h0" link set bridge up
  for ((host = 1; host <= host_count; host++)); do
    ip netns add "${space}h$host"
    ip -n "${space}h$host" link set lo up
    use_cubic "$host"
    ip -n "${space}h0" link add name "host$host" type veth peer name eth0 netns "${space}h$host"
    ip -n "${space}h0" link set "host$host" master bridge up
    ip -n "${space}h$host" addr add "10.78.0.$host/24" dev eth0
    ip -n "${space}h$host" link set eth0 up
  done
  await_links
  make_shell "$2"
}

make_two_hosts() {
  local host
  host_count=2
  for host in 1 2; do
    ip netns add "${space}h$host"
    ip -n "${space}h$host" link set lo up
    use_cubic "$host"
  done
  ip -n "${space}h1" link add name eth0 type veth peer name eth0 netns "${space}h2"
  for host in 1 2; do
    ip -n "${space}h$host" addr add "10.78.0.$host/24" dev eth0
    ip -n "${space}h$host" link set eth0 up
  done
  await_links
  make_shell "$1"
}

use_cubic() {
  ip netns exec "${space}h$1" sh -c "echo cubic > /proc/sys/net/ipv4/tcp_congestion_control" 2>/dev/null || true
  tcp=$(ip netns exec "${space}h$1" cat /proc/sys/net/ipv4/tcp_congestion_control)
}

# The kernel notices a moment later that a cable is plugged in; UCX takes no interface before.
await_links() {
  local host
  for ((host = 1; host <= host_count; host++)); do
    until [ "$(ip netns exec "${space}h$host" cat /sys/class/net/eth0/operstate)" = up ]; do sleep 0.02; done
  done
}

make_shell() {
  cat >"$1/shell" <<EOF
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\${1##*.}
shift
exec ip netns exec "${space}h\$host" unshare --uts --ipc sh -c "hostname host\$host; \$*"
EOF
  chmod +x "$1/shell"
}

open_mpi_on() {
  open_mpi=(mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent "$2/shell" --mca oob_tcp_if_include eth0
    --mca mpi_yield_when_idle 1 --bind-to none --mca hwloc_base_binding_policy none --host "$1")
}
