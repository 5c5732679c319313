# What `dslaunch env` tells agrees with what the machine and --version say; what nobody could find out is null.
. "$(dirname "$0")/launcher.sh"
unset DSLAUNCH_RANKD

expect 0 env
expect_text out "oneDNN"
expect 0 env --json
cp out env.json
python3 - "$(dslaunch --version)" <<'PY' || fail "env --json: $(head -c 2000 env.json)"
import json, os, sys
said = json.load(open("env.json"))
version = sys.argv[1]
build = said["build"]
kernels = build["cuda_kernels"]
assert f"commit {build['commit']};" in version, version
assert (f"CUDA kernels {kernels}" if kernels else "CUDA no") in version, version
assert build["cuda"] == (bool(kernels) and kernels != "emulated"), build
features = {feature["name"]: feature for feature in said["features"]}
assert features["training on CPUs"]["has"] is True
assert all(feature["has"] is True or feature["how"] for feature in features.values()), features
libraries = {library["name"]: library for library in said["libraries"]}
assert all(libraries[name]["version"] for name in ("oneDNN", "gRPC", "Protobuf", "OpenSSL")), libraries
assert said["cpu"]["cores"] <= len(os.sched_getaffinity(0)) and said["memory"]["total"] > 0
assert "lo" in [interface["name"] for interface in said["network"]]
assert "nebula" in said["missing_keys"] and "eigenvalue" not in said["missing_keys"]
PY
# Libraries that are opened at run time are told with their files; one that is too old, with what it lacks.
LD_LIBRARY_PATH="$bin/libraries/old" expect 0 env --json
cp out env.json
python3 - "$bin/libraries/old/libnccl.so.2" <<'PY' || fail "env --json, NCCL: $(head -c 4000 env.json)"
import json, sys
said = json.load(open("env.json"))
libraries = {library["name"]: library for library in said["libraries"]}
for name in ("CUDA driver", "cuBLASLt", "cuDNN", "NCCL", "cuFile"):
    library = libraries[name]
    assert library["purpose"] and not library["used"], library
    assert ("file" in library) == library["found"] and ("install" in library.get("why", "")) != library["found"], library
nccl = libraries["NCCL"]
kernels = str(said["build"]["cuda_kernels"])
if kernels != "emulated":  # which looks for a stand-in by another name
    assert (nccl["file"], nccl["version"]) == (sys.argv[1], "2.19.3"), nccl
    lacks = "has no function ncclGetErrorString" if kernels.startswith("sm_") else "this build"
    assert lacks in nccl["unusable"], nccl
PY
# What dslaunch asks of it rankd does not go on with when nobody waits for it any more.
"$bin/rankd" --answer 1 --inventory > out 2> err
[ $? -eq 1 ] || fail "rankd answers one that is gone"
expect_text err "the launcher (pid 1) is gone"
# Without rankd, or with another's, nothing that it would say is claimed.
DSLAUNCH_RANKD=/nowhere/rankd expect 0 env --json
printf '#!/bin/sh\necho usage\n' > other && chmod +x other
cp out env.json
DSLAUNCH_RANKD="$PWD/other" expect 0 env
expect_text out "no       training on CPUs"
python3 - <<'PY' || fail "env without rankd: $(head -c 2000 env.json)"
import json
said = json.load(open("env.json"))
features = {feature["name"]: feature for feature in said["features"]}
assert said["build"]["rankd"] is None and "/nowhere/rankd" in said["build"]["rankd_note"], said["build"]
assert features["training on CPUs"]["has"] is False and features["bf16 faster than fp32"]["has"] is None, features
assert said["cpu"]["used_by_onednn"] is None and "oneDNN" not in [library["name"] for library in said["libraries"]]
PY
finish
