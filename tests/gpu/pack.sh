#!/usr/bin/env bash
# Packs what a machine with a GPU needs that has neither compilers nor packages nor a network: programs of a build, the
# libraries they need but for those of every system (libc, libm, libstdc++, libgcc), the scripts of this folder, a text
# to train on and PyTorch's peers. Builds the programs first (preset gpu, for the architecture that is named, as this
# machine needs no GPU), unless a folder of them is given. The folder that it writes holds the bundle, its manifest and
# the scripts that open it: first.sh and second.sh.
#
# usage: tests/gpu/pack.sh [--arch ARCH] [--cudnn-frontend DIR] [--bin DIR] [--programs "NAME ..."] [--golden DIR]
#                          [--out DIR] [--limit MIB]
#   --arch            CMAKE_CUDA_ARCHITECTURES; 90-real if none is named: machine code for Hopper alone, as PTX for
#                     newer GPUs would make a program three times as large
#   --cudnn-frontend  folder of cudnn_frontend.h (1.32 or newer), without which attention is our own kernels
#   --bin             programs of this folder are packed, and nothing is built
#   --programs        these and no others
#   --golden          golden runs for the suites of models
#   --out             .gpu in the source folder if none is named, which git ignores
#   --limit           MiB that the folder and the files that git does not ignore may have together, since these travel
#                     with it: 60
# Examples:
#   python3 -m pip install --no-deps --target /tmp/frontend nvidia-cudnn-frontend==1.32.0
#   tests/gpu/pack.sh --cudnn-frontend /tmp/frontend/include
#   tests/gpu/pack.sh --bin build-gpu/bin --programs "kernels_tests device_ceilings"
#   OUT=results bash .gpu/first.sh A 400     # there
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
arch=90-real cudnn_frontend="" bin="" golden="" out=$source_dir/.gpu limit=60
programs="kernels_tests model_tests optim_tests core_tests comm_tests checkpoint_tests zero_tests train_tests
          offload_tests device_ceilings device_kernels train_bench dslaunch rankd"
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; }
refuse() { echo "pack.sh: $*" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case "$1" in
    --help) usage; exit 0 ;;
    --arch|--cudnn-frontend|--bin|--programs|--golden|--out|--limit)
      [ $# -ge 2 ] || refuse "$1 needs a value"
      name=${1#--}
      declare "${name//-/_}=$2"; shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done
case "$limit" in ''|*[!0-9]*) refuse "--limit $limit is no number of MiB" ;; esac
if [ -n "$cudnn_frontend" ]; then
  [ -z "$bin" ] || refuse "--cudnn-frontend is for a build, and --bin builds nothing"
  [ -f "$cudnn_frontend/cudnn_frontend.h" ] || refuse "there is no $cudnn_frontend/cudnn_frontend.h"
  cudnn_frontend=$(cd "$cudnn_frontend" && pwd)
fi

if [ -z "$bin" ]; then
  cd "$source_dir"
  flags=(-DCMAKE_CUDA_ARCHITECTURES="$arch" -DDS_WITH_MPI=OFF -Wno-dev)
  if [ -n "$cudnn_frontend" ]; then
    flags+=(-DDS_WITH_CUDNN=ON -DCUDNN_FRONTEND_INCLUDE_DIR="$cudnn_frontend")
  fi
  cmake --preset gpu "${flags[@]}"
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

# The closure of their libraries. Those that every system has go with its kernel and its other programs.
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

scripts=("$source_dir"/tests/gpu/{first.sh,second.sh,parts.sh,cases.awk})
cp "${scripts[@]}" "$source_dir/tests/gpu/job.sh" "$bundle/gpu/"
cp "$source_dir/README.md" "$bundle/corpus.txt"
cp "$source_dir"/tests/bench/peers/torch_*.py "$bundle/peers/"
if [ -n "$golden" ]; then cp -R "$golden" "$bundle/golden"; fi

# Asking git is no reason to write an index anew.
git_here() { GIT_OPTIONAL_LOCKS=0 git -C "$source_dir" "$@" 2> /dev/null; }
commit=$(git_here rev-parse HEAD || echo unknown)
changed=$([ -z "$(git_here status --porcelain)" ] && echo false || echo true)
{
  printf '{"commit": "%s", "changed": %s, "architecture": "%s", "files": {' "$commit" "$changed" "$arch"
  (cd "$bundle" && find bin lib gpu peers corpus.txt -type f -print0 | sort -z | xargs -0 sha256sum) |
    awk '{ printf("%s\n  \"%s\": \"%s\"", comma, $2, $1); comma = "," }'
  printf '\n}}\n'
} > "$out/manifest.json"
cp "$out/manifest.json" "$bundle/manifest.json"
cp "${scripts[@]}" "$out/"
# Most programs hold the same kernels. A dictionary as long as several of them says so once, and threads would each
# begin with an empty one.
tar -C "$bundle" --sort=name -c . | xz -T1 --lzma2=preset=1,dict=128MiB > "$out/bundle.tar.xz.new"
mv "$out/bundle.tar.xz.new" "$out/bundle.tar.xz"  # who carries it away too early takes the one before, or none

mib() { awk -v bytes="$1" 'BEGIN { printf("%.1f MiB", bytes / 1048576) }'; }
say() { printf '%-18s %10s  %s\n' "$1" "$(mib "$2")" "${3-}"; }
for program in $programs; do say "$program" "$(stat -c %s "$bundle/bin/$program")" stripped; done
for folder in "$bundle"/*/; do
  folder=$(basename "$folder")
  if [ "$folder" != bin ]; then say "$folder/" "$(du -sb "$bundle/$folder" | cut -f1)"; fi
done
packed=$(find "$out" -maxdepth 1 -type f -exec stat -c %s {} + | awk '{ sum += $1 } END { printf("%d", sum) }')
tree=$({ git_here ls-files -z --cached --others --exclude-standard || true; } |
  { cd "$source_dir" && xargs -0r stat -c %s 2> /dev/null || true; } |
  awk '{ sum += $1 } END { printf("%d", sum) }')
say bundle.tar.xz "$(stat -c %s "$out/bundle.tar.xz")" "commit $commit"
say "all of it" "$packed" "$out"
say "tree" "$tree" "files of $source_dir that git does not ignore, which travel too"
most=$(((limit << 20) - tree))
if [ "$packed" -gt "$most" ]; then
  echo "pack.sh: $(mib "$packed") are more than the $(mib $most) that the tree leaves of $limit MiB;" \
       "name fewer --programs" >&2
  exit 1
fi
