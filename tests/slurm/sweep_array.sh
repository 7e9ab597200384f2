#!/usr/bin/env bash
# A real Slurm on this machine (controller and two nodes, on loopback) runs a sweep on tiny checkpoints as a job
# array with configs/slurm/sweep.sbatch. One array task is killed midway and requeued; the records must be those
# of one process. Usage: tests/slurm/sweep_array.sh PROGRAM. Exit code 77: this machine cannot run Slurm.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
export KVBENCH="$1"
DIR="$(mktemp -d)"
HOST="$(hostname -s)"
CTLD_PORT=$((20000 + $$ % 20000))

skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" -eq 0 ] || skip "slurmd needs root"
for tool in munged slurmctld slurmd sbatch; do
  PATH="$PATH:/usr/sbin" command -v "$tool" >/dev/null || skip "$tool is not installed (packages slurm-wlm, munge)"
done
export PATH="$PATH:/usr/sbin" SLURM_CONF="$DIR/slurm.conf"

# Ends what was started here, by its own process ids.
clean_up() {
  local pid_file
  scancel --full --user=root >/dev/null 2>&1 || true
  for pid_file in "$DIR"/slurmd-*.pid "$DIR/slurmctld.pid" "$DIR/munged.pid"; do
    [ -s "$pid_file" ] && kill "$(cat "$pid_file")" 2>/dev/null
  done
  sleep 1
  rm -rf "$DIR"
}
trap clean_up EXIT

fail() {
  echo "FAILED: $*"
  tail -n 15 "$DIR"/*.log "$DIR"/job-* 2>/dev/null || true
  exit 1
}

# until_true SECONDS COMMAND...: false when the command has not succeeded by then.
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.2
  done
}

start_slurm() {
  mkdir "$DIR/state"
  (umask 077 && head -c 1024 /dev/urandom >"$DIR/munge.key")
  chmod 755 "$DIR"
  munged --force --key-file="$DIR/munge.key" --socket="$DIR/munge.socket" --pid-file="$DIR/munged.pid" \
    --log-file="$DIR/munged.log" --seed-file="$DIR/munge.seed"
  echo "CgroupPlugin=cgroup/v1" >"$DIR/cgroup.conf"
  cat >"$SLURM_CONF" <<EOF
ClusterName=kvbench
SlurmctldHost=$HOST(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$DIR/munge.socket
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$DIR/spool-%n
SlurmctldPidFile=$DIR/slurmctld.pid
SlurmdPidFile=$DIR/slurmd-%n.pid
SlurmctldLogFile=$DIR/slurmctld.log
SlurmdLogFile=$DIR/slurmd-%n.log
SlurmctldPort=$CTLD_PORT
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,requeue_setup_env_fail
MpiDefault=none
ReturnToService=2
KillWait=2
MinJobAge=300
PropagateResourceLimits=NONE
NodeName=n[0-1] NodeHostname=$HOST NodeAddr=127.0.0.1 Port=$((CTLD_PORT + 1))-$((CTLD_PORT + 2)) CPUs=1 State=UNKNOWN
PartitionName=all Nodes=n[0-1] Default=YES MaxTime=INFINITE State=UP
EOF
  slurmctld || skip "slurmctld does not start"
  slurmd -N n0 && slurmd -N n1 || skip "slurmd does not start"
  until_true 20 nodes_idle || skip "the nodes do not come up: $(tail -n 3 "$DIR"/slurmd-*.log)"
}

nodes_idle() { [ "$(sinfo --noheader --format=%T | sort -u)" = idle ]; }
some_records() { [ -s "$DIR/out/index.jsonl" ]; }
all_gone() { [ -z "$(squeue --noheader)" ]; }

# The rows of an index, without what differs from run to run, in a fixed order.
comparable() {
  python3 - "$1" <<'EOF'
import json, sys
measured = {"tokens_per_s", "prefill_tokens_per_s", "started_at", "peak_rss_bytes", "environment", "threads"}
rows = [json.loads(line) for line in open(sys.argv[1] + "/index.jsonl")]
for row in sorted(rows, key=lambda row: row["config_hash"]):
    print(json.dumps({key: value for key, value in row.items() if key not in measured}, sort_keys=True))
EOF
}

# Long enough that a task still runs when its first record is seen.
IDS="$(for _ in $(seq 100); do seq 1 30; done | paste -sd,)"
cat >"$DIR/sweep.json" <<EOF
{"task": "ppl", "threads": 1, "out": "out", "chunk": 1,
 "model": ["$ROOT/tests/golden/tiny/llama", "$ROOT/tests/golden/tiny/qwen3"],
 "ids": "$IDS",
 "seed": {"from": 1, "to": 12, "step": 1},
 "policy": ["full", "sink1+7", "h2o:heavy=4,recent=4", "random:capacity=8"]}
EOF
start_slurm
"$KVBENCH" sweep "$DIR/sweep.json" --quiet --out "$DIR/alone" >/dev/null

ARRAY="$(sbatch --parsable --array=1-4 --output="$DIR/job-%a" "$ROOT/configs/slurm/sweep.sbatch" "$DIR/sweep.json")"
until_true 20 some_records || fail "no array task wrote a record"
VICTIM="${ARRAY}_1"
victim_of() { pgrep -n -f "^$KVBENCH sweep $DIR/sweep.json --shard 1/4"; }
until_true 20 victim_of >/dev/null || fail "the first array task does not run"
kill -KILL "$(victim_of)"
until_true 20 sh -c "! squeue --noheader --states=R,CG --array --format=%i | grep -qx $VICTIM" || fail "it lives on"
scontrol requeue "$VICTIM" || fail "array task $VICTIM cannot be requeued"
scontrol update JobId="$VICTIM" StartTime=now || true  # else it waits two minutes
until_true 40 all_gone || fail "the array does not end: $(squeue)"

"$KVBENCH" sweep "$DIR/sweep.json" --quiet >"$DIR/table" || fail "a cell has no result"
diff <(comparable "$DIR/alone") <(comparable "$DIR/out") || fail "the array's records are not those of one process"
echo "array $ARRAY of 4 tasks, $VICTIM killed and requeued: $(wc -l <"$DIR/out/index.jsonl") records as from one process"
