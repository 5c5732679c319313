# Sourced by the tests over several hosts: two network namespaces with an sshd each, and a third, where
# dslaunch runs, that bridges them. The file system and the processes' numbers are the machine's. With
# own_disk=<folder> each host sees a folder of its own in its place: from outside, <folder>-of-0 and -of-1.
# Usage of a test: bash tests/system/hosts/<name>.sh <folder of the programs>. Exit code 77: it cannot run here.
skip() {
  echo "SKIPPED: $*"
  exit 77
}
[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
for tool in ip ssh ssh-keygen /usr/sbin/sshd; do
  command -v "$tool" > /dev/null || skip "$tool is missing"
done
source "$(dirname "${BASH_SOURCE[0]}")/../launcher.sh"

# mpirun has a session folder of its own by this. Its parameters say it less well: orte_tmpdir_base holds for its daemons
# as well, and MPI_Init refuses what orte_local_tmpdir_base says.
export TMPDIR=$scratch

net=10.213.77
here=dsl$$h
nodes=(dsl$$a dsl$$b)
addresses=($net.2 $net.3)

take_down() {
  local name
  for name in "$here" "${nodes[@]}"; do
    ip netns pids "$name" 2>/dev/null | xargs -r kill -KILL 2>/dev/null
    ip netns del "$name" 2>/dev/null
  done
  clean_up
}
trap take_down EXIT

ip netns add "$here" 2>/dev/null || skip "no network namespaces here"
ip -n "$here" link add bridge type bridge 2>/dev/null || skip "no bridges here"
ip -n "$here" addr add $net.1/24 dev bridge
ip -n "$here" link set bridge up
ip -n "$here" link set lo up
mkdir -p /run/sshd ssh
ssh-keygen -q -t ed25519 -N '' -f ssh/user
ssh-keygen -q -t ed25519 -N '' -f ssh/stranger
for i in 0 1; do
  name=${nodes[$i]}
  ip netns add "$name"
  ip -n "$here" link add "port$i" type veth peer name eth0 netns "$name"
  ip -n "$here" link set "port$i" master bridge up
  ip -n "$name" addr add "${addresses[$i]}/24" dev eth0
  ip -n "$name" link set eth0 up
  ip -n "$name" link set lo up
  ssh-keygen -q -t ed25519 -N '' -f "ssh/host$i"
  echo "${addresses[$i]} $(cut -d' ' -f1,2 "ssh/host$i.pub")" >> ssh/known_hosts
  # With SHLVL bash does not take itself for the first shell of an ssh session, and leaves ~/.bashrc alone: what people
  # have there may wait for locks of sessions that a test has killed.
  # A TMPDIR each, as hosts have: Open MPI's daemons of two "hosts" of one name and one /tmp clear away each other's
  # session folder, and mpirun then waits for ever for the one that died of it.
  mkdir "tmp$i"
  cat > "ssh/sshd$i.conf" <<CONF
ListenAddress ${addresses[$i]}
HostKey $scratch/ssh/host$i
AuthorizedKeysFile $scratch/ssh/user.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
SetEnv SHLVL=1 TMPDIR=$scratch/tmp$i
CONF
  sshd=(/usr/sbin/sshd -D -e -f "$scratch/ssh/sshd$i.conf")
  if [ -n "${own_disk:-}" ]; then  # `ip netns exec` gives what it starts mounts of its own
    mkdir -p "$own_disk" "$own_disk-of-$i"
    sshd=(sh -c 'mount --bind "$1" "$2" && shift 2 && exec "$@"' sh
      "$scratch/$own_disk-of-$i" "$scratch/$own_disk" "${sshd[@]}")
  fi
  ip netns exec "$name" "${sshd[@]}" 2> "ssh/sshd$i.log" &
done
cat > ssh/config <<CONF
Host node-1
  HostName ${addresses[0]}
Host stranger
  HostName ${addresses[0]}
  IdentityFile $scratch/ssh/stranger
Host unknown
  HostName ${addresses[1]}
  HostKeyAlias nobody
Host silent
  HostName $net.1
  Port 2200
Host * !stranger
  IdentityFile $scratch/ssh/user
Host *
  IdentitiesOnly yes
  UserKnownHostsFile $scratch/ssh/known_hosts
  GlobalKnownHostsFile /dev/null
CONF
printf '%s slots=2\n' "${addresses[@]}" > hosts
run=${own_disk:+$own_disk/}run
forget_run() { rm -rf "$run" ${own_disk:+"$own_disk"-of-?/run}; }
answers() { ip netns exec "$here" ssh -F ssh/config -o BatchMode=yes "$1" true 2> /dev/null; }
for address in "${addresses[@]}"; do
  wait_until "sshd on $address" answers "$address" || { cat ssh/*.log; finish; }
done

by_ssh=(--hostfile hosts --launcher ssh --launcher-args "-F $scratch/ssh/config")
by_mpi=(--hostfile hosts --launcher mpi --launcher-args
  "--allow-run-as-root --mca plm_rsh_agent 'ssh -F $scratch/ssh/config' --mca oob_tcp_if_include $net.0/24 --mca plm_rsh_no_tree_spawn 1")

# mpirun that starts dslaunch itself, two on each host.
many=(ip netns exec "$here" mpirun --allow-run-as-root --host "${addresses[0]}:2,${addresses[1]}:2" -N 2
  --mca plm_rsh_agent "ssh -F $scratch/ssh/config" --mca oob_tcp_if_include $net.0/24
  --mca plm_rsh_no_tree_spawn 1 -x FAKE_RANK -x DSLAUNCH_RANKD -x PATH --wdir "$scratch")

command_of() { { tr '\0' ' ' < "/proc/$1/cmdline"; } 2> /dev/null; }

# Everything that runs on the two hosts besides their own sshd.
strangers() {
  local name pid
  for name in "${nodes[@]}"; do
    for pid in $(ip netns pids "$name"); do
      case $(command_of "$pid") in
        *sshd*) ;;
        '') ;;
        *) echo "$pid" ;;
      esac
    done
  done
}
# processes_of <namespace> <pattern>: those with it in their command line.
processes_of() {
  local pid
  for pid in $(ip netns pids "$1"); do
    case $(command_of "$pid") in *"$2"*) echo "$pid" ;; esac
  done
}
on_hosts() {  # on_hosts <pattern>
  local name
  for name in "${nodes[@]}"; do processes_of "$name" "$1"; done
}
nobody_left() { [ -z "$(strangers)" ]; }

# run_on_hosts <code> <words...>: dslaunch in the bridge's namespace, into out and err.
run_on_hosts() {
  local want=$1 got
  shift
  forget_run
  timeout 100 ip netns exec "$here" "$bin/dslaunch" train.json --run-dir "$run" "$@" > out 2> err
  got=$?
  [ "$got" -eq "$want" ] || fail "dslaunch $*: exit code $got, expected $want"
}

# start_on_hosts <words...>: in the background as $launcher, once its ranks have made a step.
start_on_hosts() {
  forget_run
  : > out
  ip netns exec "$here" "$bin/dslaunch" train.json --run-dir "$run" "$@" > out 2> err &
  launcher=$!
  wait_until "the first step" test -s "$run/metrics.jsonl" || finish
}
