#!/usr/bin/env bash
# Under Slurm: a controller and two virtual nodes on this machine, hosts and slots from the allocation.
for tool in slurmctld slurmd srun salloc scontrol; do
  command -v $tool > /dev/null || { echo "SKIPPED: $tool is missing"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo "SKIPPED: slurmd needs root"; exit 77; }
source "$(dirname "$0")/launcher.sh"

daemons=()
end_slurm() {
  local job pid
  for job in $(squeue -h -o %i 2> /dev/null); do scancel -f "$job" 2> /dev/null; done
  # Steps outlive slurmd: they are found by the spool folder in their environment or arguments.
  for pid in "${daemons[@]}"; do kill -TERM "$pid" 2> /dev/null; done
  sleep 1
  for pid in "${daemons[@]}"; do kill -KILL "$pid" 2> /dev/null; done
  clean_up
}
trap end_slurm EXIT

host=$(hostname -s)
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
mkdir -p slurm/state slurm/spool-vn1 slurm/spool-vn2
cat > slurm/slurm.conf <<CONF
ClusterName=test$$
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmUser=root
SlurmctldPidFile=$scratch/slurm/slurmctld.pid
SlurmdPidFile=$scratch/slurm/slurmd-%n.pid
StateSaveLocation=$scratch/slurm/state
SlurmdSpoolDir=$scratch/slurm/spool-%n
SlurmctldLogFile=$scratch/slurm/slurmctld.log
SlurmdLogFile=$scratch/slurm/slurmd-%n.log
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
NodeName=vn1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free_port) CPUs=4 State=UNKNOWN
NodeName=vn2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free_port) CPUs=4 State=UNKNOWN
PartitionName=all Nodes=vn1,vn2 Default=YES State=UP
CONF
export SLURM_CONF=$scratch/slurm/slurm.conf
slurmctld -D 2> slurm/slurmctld.err & daemons+=($!)
for node in vn1 vn2; do
  slurmd -D -N $node 2> slurm/$node.err & daemons+=($!)
done
both_idle() { [ "$(sinfo -h -o '%T %D' 2> /dev/null)" = "idle 2" ]; }
for ((i = 0; i < 300; i++)); do both_idle && break; sleep 0.1; done
both_idle || { echo "SKIPPED: Slurm does not run here: $(tail -n 3 slurm/*.err slurm/*.log)"; trap end_slurm EXIT; exit 77; }

allocate() { timeout 120 salloc -Q --nodes=2 --ntasks-per-node=2 "$@"; }

export FAKE_RANK="steps=3"
allocate dslaunch train.json --run-dir run --env FAKE_RANK > out 2> err || fail "srun: exit code $?"
expect_text out "run run: 4 ranks"
expect_text run/logs/dslaunch.log "rank 3 joined"
expect_text run/logs/dslaunch.log "on vn2"

# One task per node and ranks by --num-gpus; a job script that hands the exit code on.
FAKE_RANK="steps=9 rank=3 at=2 do=data" timeout 120 salloc -Q --nodes=2 --ntasks-per-node=1 \
  dslaunch train.json --run-dir run2 --num-gpus 2 --max-restarts 0 --env FAKE_RANK > out 2> err
[ $? -eq 65 ] || fail "the exit code of a rank's data error got lost"
expect_text err "token 50000 at position 12"

# A cancelled job saves and leaves nothing.
FAKE_RANK="steps=100000 step_ms=20" salloc -Q --nodes=2 --ntasks-per-node=2 \
  dslaunch train.json --run-dir run3 --env FAKE_RANK > out 2> err &
allocation=$!
wait_until "the first step" test -s run3/metrics.jsonl || finish
scancel --signal=TERM --full "$(squeue -h -o %i)" 2> /dev/null
kill -TERM "$(pgrep -P $allocation -x dslaunch)" 2> /dev/null
wait $allocation
[ $? -eq 75 ] || fail "after TERM: exit code is not 75"
expect_text out "committed tag="
nobody() { ! pgrep -f "$bin/fake_rank --from-stdin" > /dev/null && ! pgrep -f "$bin/dslaunch agent" > /dev/null; }
for ((i = 0; i < 150; i++)); do nobody && break; sleep 0.1; done
nobody || fail "processes are left after the job"
finish
