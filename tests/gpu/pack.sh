#!/usr/bin/env bash
# Packs what tests/gpu/run.sh needs on a machine with a GPU and neither compilers, packages nor a network: programs of
# a build, the libraries they need but for those of every system (libc, libm, libstdc++, libgcc), this folder, a text
# to train on and PyTorch's peers. Builds the programs first (preset gpu for the architecture that is named, as this machine needs no
# GPU), unless a folder of them is given.
#
# usage: tests/gpu/pack.sh [--arch 90] [--bin DIR] [--programs "NAME ..."] [--golden DIR] [--out DIR]
#   --bin DIR     pack programs of this folder and build nothing
#   --golden DIR  golden runs for the suites of models
#   --out DIR     where bundle.tar.xz and manifest.json go (.gpu in the source folder, which git ignores)
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
arch=90 bin="" golden="" out=$source_dir/.gpu
programs="kernels_tests model_tests optim_tests core_tests comm_tests checkpoint_tests zero_tests train_tests
          device_ceilings device_kernels train_bench dslaunch rankd"
most_bytes=$((64 << 20))  # of the bundle
while [ $# -gt 0 ]; do
  case "$1" in
    --arch|--bin|--programs|--golden|--out)
      [ $# -ge 2 ] || { echo "pack.sh: $1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"; shift 2 ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
  esac
done

if [ -z "$bin" ]; then
  cd "$source_dir"
  cmake --preset gpu -DCMAKE_CUDA_ARCHITECTURES="$arch" -DDS_WITH_MPI=OFF -Wno-dev
  # shellcheck disable=SC2086  # a list of names
  cmake --build build-gpu --target $programs
  bin=$source_dir/build-gpu/bin
fi

bundle=$(mktemp -d)
trap 'rm -rf "$bundle"' EXIT
mkdir -p "$out" "$bundle/bin" "$bundle/lib" "$bundle/gpu" "$bundle/peers"
for program in $programs; do
  if [ ! -x "$bin/$program" ]; then
    echo "pack.sh: $bin has no program $program" >&2
    exit 1
  fi
  cp -L "$bin/$program" "$bundle/bin/"
  strip --strip-unneeded "$bundle/bin/$program"
done

# Their closure. Those that every system has go with its kernel and its other programs.
for program in "$bundle"/bin/*; do
  ldd "$program"
done | awk '/not found/ { print "pack.sh: " $1 " is missing on this machine" > "/dev/stderr"; bad = 1 }
            $2 == "=>" && $3 ~ /^\// { print $3 }
            END { exit bad }' | sort -u | while read -r library; do
  case "$(basename "$library")" in
    libc.so.*|libm.so.*|libstdc++.so.*|libgcc_s.so.*|libpthread.so.*|libdl.so.*|librt.so.*|libcuda.so.*) ;;
    *) cp -L "$library" "$bundle/lib/"; strip --strip-unneeded "$bundle/lib/$(basename "$library")" ;;
  esac
done

cp "$source_dir"/tests/gpu/*.sh "$bundle/gpu/"
cp "$source_dir/README.md" "$bundle/corpus.txt"
cp "$source_dir"/tests/bench/peers/torch_*.py "$bundle/peers/"
if [ -n "$golden" ]; then cp -R "$golden" "$bundle/golden"; fi

commit=$(git -C "$source_dir" rev-parse HEAD 2>/dev/null || echo unknown)
changed=$([ -z "$(git -C "$source_dir" status --porcelain 2>/dev/null)" ] && echo false || echo true)
{
  printf '{"commit": "%s", "changed": %s, "architecture": "%s", "files": {' "$commit" "$changed" "$arch"
  (cd "$bundle" && find bin lib gpu peers corpus.txt -type f | sort | xargs sha256sum) |
    awk '{ printf("%s\n  \"%s\": \"%s\"", comma, $2, $1); comma = "," }'
  printf '\n}}\n'
} > "$out/manifest.json"
cp "$out/manifest.json" "$bundle/manifest.json"
tar -C "$bundle" -c . | xz -T0 -1 > "$out/bundle.tar.xz"
bytes=$(stat -c %s "$out/bundle.tar.xz")
if [ "$bytes" -gt "$most_bytes" ]; then
  echo "pack.sh: the bundle has $bytes bytes, more than the $most_bytes that are carried; name fewer --programs" >&2
  exit 1
fi
echo "$out/bundle.tar.xz: $(du -h "$out/bundle.tar.xz" | cut -f1), commit $commit"
