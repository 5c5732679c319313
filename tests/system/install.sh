# What users install: a prefix by cmake --install, a deb and an archive by cpack. Each runs away from the build, a
# project finds it by find_package, and the archive brings every library but the C library.
source_dir=$(realpath "$(dirname "$0")/../..")
. "$(dirname "$0")/launcher.sh"
unset DSLAUNCH_RANKD
build=$(dirname "$bin")
command -v dpkg-shlibdeps > /dev/null || { echo "skipped: needs dpkg-dev"; exit 77; }
seq 2000 > corpus.txt

# trains <folder of dslaunch>: without anything of this shell that could help it to its libraries.
trains() {
  rm -rf run
  env -i PATH=/usr/bin:/bin timeout 60 "$1/dslaunch" train.json --num-ranks 2 train.steps=2 --run-dir run > out 2> err ||
    fail "$1/dslaunch does not train"
  expect_text out "done: 2 steps"
}

echo "a prefix"
cmake --install "$build" --prefix "$scratch/prefix" > out 2> err || fail "cmake --install"
trains "$scratch/prefix/bin"
for file in libexec/dslaunch/rankd share/doc/dslaunch/README.md share/doc/dslaunch/docs/config.md \
            share/doc/dslaunch/examples/kjv/train.json share/doc/dslaunch/LICENSE \
            share/bash-completion/completions/dslaunch share/zsh/site-functions/_dslaunch \
            share/fish/vendor_completions.d/dslaunch.fish share/man/man1/dslaunch.1.gz \
            share/man/man1/dslaunch-run.1.gz; do
  [ -e "prefix/$file" ] || fail "not installed: $file"
done
mv prefix moved
trains "$scratch/moved/bin"

echo "find_package"
mkdir consumer
cat > consumer/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(consumer NONE)
find_package(dslaunch 0.1 REQUIRED)
foreach(program dslaunch rankd)
  get_target_property(place dslaunch::${program} IMPORTED_LOCATION)
  message(STATUS "${program} is ${place}")
endforeach()
message(STATUS "commit is ${dslaunch_COMMIT}")
add_custom_target(check ALL COMMAND dslaunch::dslaunch check ${TRAIN_JSON} VERBATIM)
CMAKE
cmake -S consumer -B consumer/build -DCMAKE_PREFIX_PATH="$scratch/moved" -DTRAIN_JSON="$scratch/train.json" \
  > out 2> err || fail "find_package"
expect_text out "dslaunch is $scratch/moved/bin/dslaunch"
expect_text out "rankd is $scratch/moved/libexec/dslaunch/rankd"
commit=$("$bin/dslaunch" --version | sed 's/.*commit \([^;]*\);.*/\1/')
expect_text out "commit is $commit"
cmake --build consumer/build > out 2> err || fail "a build that runs dslaunch::dslaunch"
expect_text out "no errors"
sed -i 's/ 0.1 REQUIRED/ 7 REQUIRED/' consumer/CMakeLists.txt
cmake -S consumer -B consumer/other -DCMAKE_PREFIX_PATH="$scratch/moved" > out 2> err && fail "version 7 was found"

echo "packages"
(cd "$build" && cpack -G "DEB;TGZ" -B "$scratch/packages") > out 2> err || fail "cpack"
dpkg-deb -c packages/dslaunch_*.deb | awk '{print $1, $2, $6}' > contents
for line in "-rwxr-xr-x root/root ./usr/bin/dslaunch" "-rwxr-xr-x root/root ./usr/libexec/dslaunch/rankd" \
            "-rw-r--r-- root/root ./usr/share/doc/dslaunch/copyright"; do
  expect_text contents "$line"
done
for file in zsh/vendor-completions/_dslaunch man/man1/dslaunch.1.gz; do
  expect_text contents "-rw-r--r-- root/root ./usr/share/$file"
done
grep -q "/lib/dslaunch" contents && fail "the deb brings libraries, which it should depend on"
dpkg-deb -f packages/dslaunch_*.deb Package Depends > fields
expect_text fields "Package: dslaunch"
for library in libc6 libdnnl2 libssl3 libhwloc15; do expect_text fields "$library ("; done
dpkg-deb -x packages/dslaunch_*.deb unpacked
trains "$scratch/unpacked/usr/bin"
if [ "$(id -u)" -eq 0 ]; then
  # A database of its own; what the deb depends on is not in it.
  mkdir -p root/var/lib/dpkg/{info,updates} && touch root/var/lib/dpkg/{status,available}
  dpkg --root="$scratch/root" --force-depends --install packages/dslaunch_*.deb > out 2> err || fail "dpkg --install"
  [ -x root/usr/bin/dslaunch ] || fail "dpkg installed no dslaunch"
  dpkg --root="$scratch/root" --purge dslaunch > out 2> err || fail "dpkg --purge"
  left=$(find root -path root/var -prune -o -name '*dslaunch*' -print)
  [ -z "$left" ] || fail "purged, and still there: $left"
fi

echo "archive"
mkdir -p "else where" && tar xf packages/dslaunch-*.tar.gz -C "else where"
place=$(echo "$scratch/else where"/dslaunch-*)
trains "$place/bin"
for file in "$place/bin/dslaunch" "$place/libexec/dslaunch/rankd"; do
  ldd "$file" | grep -v -e "else where/" -e linux-vdso -e 'lib[cm]\.so\.6' -e /ld-linux > libraries
  [ -s libraries ] && fail "$file uses libraries of this machine: $(cat libraries)"
done
[ -s "$place/share/doc/dslaunch/notices/libgrpc-dev.copyright" ] || fail "no notice of what is linked in"
[ -s "$place/share/doc/dslaunch/notices/libdnnl2.copyright" ] || fail "no notice of what is brought along"

echo "what --version says"
"$bin/dslaunch" --version > out
grep -q -e "CUDA no;" -e "CUDA kernels" out || fail "--version does not say what it can use: $(cat out)"
# A source archive has no commit, also where it lies in somebody's repository.
git init -q around && mkdir around/source && cp -r "$source_dir/proto" around/source/
git -C around -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m one
cmake -Dsource_dir="$scratch/around/source" -Doutput="$scratch/build_info.cpp" -Dversion=1 \
  -P "$source_dir/proto/build_info.cmake" > out 2> err || fail "build_info.cmake"
expect_text build_info.cpp '.git_id = "unknown"'
cp -r "$source_dir/proto" around/
cmake -Dsource_dir="$scratch/around" -Doutput="$scratch/build_info.cpp" -Dversion=1 \
  -P "$source_dir/proto/build_info.cmake" > out 2> err || fail "build_info.cmake"
expect_text build_info.cpp ".git_id = \"$(git -C around rev-parse --short=12 HEAD)"
finish
