# Sourced by the tests under Slurm: a controller and two virtual nodes with two GPUs each, vn1 and vn2, on this machine.
# Exit code 77: it cannot run here.
for tool in slurmctld slurmd srun salloc scontrol; do
  command -v $tool > /dev/null || { echo "SKIPPED: $tool is missing"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo "SKIPPED: slurmd needs root"; exit 77; }
source "$(dirname "$0")/../launcher.sh"

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
GresTypes=gpu
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
NodeName=vn1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free_port) CPUs=4 Gres=gpu:2 State=UNKNOWN
NodeName=vn2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$(free_port) CPUs=4 Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes=vn1,vn2 Default=YES State=UP
CONF
# Slurm counts files as GPUs; those of nodes on one machine may be the same.
touch slurm/gpu0 slurm/gpu1
echo "NodeName=vn[1-2] Name=gpu File=$scratch/slurm/gpu[0-1]" > slurm/gres.conf
export SLURM_CONF=$scratch/slurm/slurm.conf
slurmctld -D 2> slurm/slurmctld.err & daemons+=($!)
for node in vn1 vn2; do
  slurmd -D -N $node 2> slurm/$node.err & daemons+=($!)
done
both_idle() { [ "$(sinfo -h -o '%T %D' 2> /dev/null)" = "idle 2" ]; }
for ((i = 0; i < 300; i++)); do both_idle && break; sleep 0.1; done
both_idle || { echo "SKIPPED: Slurm does not run here: $(tail -n 3 slurm/*.err slurm/*.log)"; trap end_slurm EXIT; exit 77; }
