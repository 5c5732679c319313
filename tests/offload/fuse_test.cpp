// Faults that come from below the kernel: a file of FUSE whose server answers with errors and half
// transfers, through the real engines.
#include <array>
#include <string>
#include <vector>

#include "offload/async_io/async_io.h"
#include "offload/async_io/choose_engine.h"
#include "offload/handles/io_handle.h"
#include "tests/offload/fuse_file.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

using Catch::Contains;
using ds::testing::TemporaryDirectory;
using test::FuseFault;
using test::FuseFile;

constexpr size_t kBytes = 5 * 8192 + 1234;
constexpr int64_t kOffset = 100;
constexpr int64_t kTransfers = 8;  // of a request: blocks of whole pages, and its two ends
constexpr std::array kKinds{EngineKind::kThreads,
                            EngineKind::kAio};  // those that are told the truth

std::vector<std::byte> some_bytes(size_t salt) {
  std::vector<std::byte> bytes(kBytes);
  for (size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<std::byte>(i * 13 + i / 253 + salt);
  return bytes;
}

// Null, with a warning, where the machine has no FUSE for us.
std::unique_ptr<FuseFile> mounted(const TemporaryDirectory& folder, size_t bytes) {
  std::string why;
  auto fuse = FuseFile::mount(folder.path().string(), bytes, why);
  if (!fuse) WARN("not tested here: " << why);
  return fuse;
}

std::unique_ptr<AsyncIo> async_io(EngineKind kind) {
  const IoOptions options{.block_size = 8192, .queue_depth = 3};
  try {
    return std::make_unique<AsyncIo>(make_engines(kind, options), options);
  } catch (const Unsupported& error) {
    WARN(error.what());
    return nullptr;
  }
}

std::vector<std::byte> part_of(const FuseFile& fuse) {
  const auto all = fuse.contents();
  return {all.begin() + kOffset, all.begin() + kOffset + static_cast<std::ptrdiff_t>(kBytes)};
}

void heal(FuseFile& fuse, AsyncIo& io, FuseFault fault, int64_t first) {
  const IoFile file = IoFile::open(fuse.path(), OpenMode::kReadWrite);
  const auto bytes = some_bytes(static_cast<size_t>(first));
  fuse.play(fault, first, 1);
  io.wait(io.write(file, kOffset, bytes));
  CHECK((part_of(fuse) == bytes));
  if (fault != FuseFault::kNone && first < 6) CHECK(fuse.played() == 1);
  std::vector<std::byte> back(kBytes);
  fuse.play(fault, first, 1);
  io.wait(io.read(file, kOffset, back));
  CHECK((back == bytes));
}

std::string error_of_write(AsyncIo& io, const IoFile& file) {
  try {
    const auto bytes = some_bytes(1);
    io.wait(io.write(file, kOffset, bytes));
    return "no error";
  } catch (const IoError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("errors and half transfers of a file system are healed or reported", "[offload]") {
  const TemporaryDirectory folder;
  const auto fuse = mounted(folder, kBytes + 2 * kOffset);
  if (!fuse) return;
  for (const EngineKind kind : kKinds) {
    const auto io = async_io(kind);
    if (!io) continue;
    INFO(to_string(kind));
    for (const FuseFault fault : {FuseFault::kNone, FuseFault::kError, FuseFault::kShort}) {
      for (int64_t first = 0; first < kTransfers; ++first) {
        INFO("fault " << static_cast<int>(fault) << " at " << first);
        heal(*fuse, *io, fault, first);
      }
    }
    const IoFile file = IoFile::open(fuse->path(), OpenMode::kReadWrite);
    CHECK(file.direct_fd() >= 0);
    fuse->play(FuseFault::kError, 2, 1000);
    CHECK_THAT(error_of_write(*io, file), Contains("second write of ") && Contains(fuse->path()) &&
                                              Contains("Input/output error"));
    fuse->play(FuseFault::kNone, 0, 0);
    heal(*fuse, *io, FuseFault::kNone, 0);
  }
}

TEST_CASE("io_uring is not used where it hides that a transfer was short", "[offload]") {
  const TemporaryDirectory folder;
  const auto fuse = mounted(folder, kBytes + 2 * kOffset);
  if (!fuse) return;
  for (const bool answers : {true, false}) {
    fuse->answer_statfs(answers);
    const EngineChoice choice = choose_engine({.folder = folder.path().string()});
    CHECK(choice.kind != EngineKind::kUring);
    CHECK_THAT(choice.line, Contains("io_uring: " + folder.path().string() + " is on FUSE"));
  }
  const auto io = async_io(EngineKind::kUring);
  if (!io) return;
  const IoFile file = IoFile::open(fuse->path(), OpenMode::kReadWrite);
  const auto bytes = some_bytes(1);
  CHECK_THROWS_WITH(io->write(file, kOffset, bytes), Contains(fuse->path() + ", which is on FUSE"));
}

TEST_CASE("a handle whose engine a file is not for has nothing under way", "[offload]") {
  const TemporaryDirectory folder;
  const auto fuse = mounted(folder, kBytes);
  if (!fuse || !async_io(EngineKind::kUring)) return;
  auto bytes = some_bytes(1);
  const Tensor tensor =
      Tensor::borrow(bytes.data(), {std::ssize(bytes)}, DType::kU8, Device::cpu());
  AioHandle refused({.engine = EngineKind::kUring});
  CHECK_THROWS_WITH(refused.async_pwrite(tensor, fuse->path(), 0), Contains("is on FUSE"));
  CHECK(refused.wait() == 0);
  AioHandle taken({.engine = EngineKind::kAio});
  taken.async_pwrite(tensor, fuse->path(), 0);
  CHECK(taken.wait() == 1);
  CHECK((fuse->contents() == bytes));
}

}  // namespace ds
