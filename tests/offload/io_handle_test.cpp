// Handles: what they write is what is read, what does not fit is refused, and how many operations
// were under way.
#include "offload/handles/io_handle.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/test_stream.h"

namespace ds {
namespace {

using testing::TestStream;

Tensor numbers(int64_t count, int32_t first, Stream& stream) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return testing::upload(values, {count}, stream);
}

Tensor zeros(int64_t count, Stream& stream) { return Tensor::zeros({count}, DType::kI32, stream); }

bool same(const Tensor& a, const Tensor& b) { return testing::bytes_of(a) == testing::bytes_of(b); }

std::string in(const testing::TemporaryDirectory& folder, const std::string& name) {
  return (folder.path() / name).string();
}

// Reads, and changes the last byte of what it has read.
class LyingEngine final : public IoEngine {
 public:
  std::string_view name() const override { return "lies"; }
  int queue_depth() const override { return 8; }
  int submit(std::span<const IoBlock> blocks) override {
    for (const IoBlock& block : blocks) {
      const ssize_t got =
          ::pread(block.fd, block.memory, static_cast<size_t>(block.bytes), block.offset);
      if (got > 0) block.memory[got - 1] ^= std::byte{1};
      done_.push_back({block.id, got});
    }
    return static_cast<int>(blocks.size());
  }
  int reap(std::span<IoCompletion> into, int /*least*/, Deadline /*deadline*/) override {
    const size_t count = std::min(into.size(), done_.size());
    std::copy_n(done_.begin(), count, into.begin());
    done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
    return static_cast<int>(count);
  }

 private:
  std::vector<IoCompletion> done_;
};

}  // namespace

TEST_CASE("the defaults of a handle are DeepNVMe's", "[offload]") {
  const AioHandle h;
  CHECK(h.block_size() == 1048576);
  CHECK(h.queue_depth() == 128);
  CHECK_FALSE(h.single_submit());
  CHECK_FALSE(h.overlap_events());
  CHECK(h.intra_op_parallelism() == 1);
}

TEST_CASE("what a handle writes it reads back, of any size and by any number of threads",
          "[offload][device]") {
  TestStream on;
  const testing::TemporaryDirectory folder;
  for (const int threads : {1, 3}) {
    AioHandle h({.block_size = 8192, .queue_depth = 4, .intra_op_parallelism = threads},
                &on.stream);
    for (const int64_t count : {1, 1023, 1024, 50'001}) {
      INFO(count << " by " << threads);
      const Tensor from = numbers(count, 7, on.stream);
      const Tensor into = zeros(count, on.stream);
      h.sync_pwrite(from, in(folder, "t"));
      CHECK(std::filesystem::file_size(in(folder, "t")) == from.bytes());
      h.sync_pread(into, in(folder, "t"));
      CHECK(same(from, into));
    }
  }
}

TEST_CASE("wait says how many operations were under way, which are then done",
          "[offload][device]") {
  TestStream on;
  const testing::TemporaryDirectory folder;
  AioHandle h({}, &on.stream);
  CHECK(h.wait() == 0);
  const Tensor a = numbers(3000, 0, on.stream), b = numbers(3000, 9, on.stream);
  h.async_pwrite(a, in(folder, "t"), 0);
  h.async_pwrite(b, in(folder, "t"), 12'000);
  CHECK(h.wait() == 2);
  CHECK(h.wait() == 0);
  const Tensor both = zeros(6000, on.stream), second = zeros(3000, on.stream);
  h.async_pread(both, in(folder, "t"));
  h.async_pread(second, in(folder, "t"), 12'000);
  CHECK(h.wait() == 2);
  CHECK(same(second, b));
  CHECK(same(both.narrow(0, 3000), a));
}

TEST_CASE("plain reads and writes move the same bytes", "[offload]") {
  TestStream on;
  const testing::TemporaryDirectory folder;
  AioHandle h;
  const Tensor from = numbers(5000, 3, on.stream), into = zeros(5000, on.stream);
  h.write(from, in(folder, "t"));
  h.sync_pread(into, in(folder, "t"));
  CHECK(same(from, into));
  const Tensor part = zeros(10, on.stream);
  h.read(part, in(folder, "t"), 4);
  CHECK(part.data<int32_t>()[0] == 4);
}

TEST_CASE("a tensor that is the whole file leaves nothing of a longer one", "[offload]") {
  TestStream on;
  const testing::TemporaryDirectory folder;
  AioHandle h;
  h.sync_pwrite(numbers(5000, 0, on.stream), in(folder, "t"));
  h.sync_pwrite(numbers(10, 0, on.stream), in(folder, "t"));
  CHECK(std::filesystem::file_size(in(folder, "t")) == 40);
  h.sync_pwrite(numbers(10, 0, on.stream), in(folder, "t"), 100);
  CHECK(std::filesystem::file_size(in(folder, "t")) == 140);
}

TEST_CASE("files that do not fit the tensor are refused in words", "[offload]") {
  TestStream on;
  const testing::TemporaryDirectory folder;
  AioHandle h;
  const std::string path = in(folder, "t");
  h.sync_pwrite(numbers(10, 0, on.stream), path);
  const Tensor more = zeros(11, on.stream), fewer = zeros(9, on.stream);
  CHECK_THROWS_WITH(h.sync_pread(more, path), Catch::Contains("it has 40 bytes and the tensor 44"));
  CHECK_THROWS_WITH(h.sync_pread(fewer, path), Catch::Contains("give its offset"));
  CHECK_THROWS_WITH(
      h.sync_pread(fewer, path, 8),
      Catch::Contains("it has 40 bytes, too short for the tensor's 36 from offset 8"));
  CHECK_THROWS_AS(h.async_pread(more, in(folder, "none")), InputMissing);
  CHECK_THROWS_AS(h.pread(more, folder.path().string()), NotAFile);
  CHECK_THROWS_AS(h.pwrite(more, in(folder, "no/folder")), InputMissing);
  CHECK(h.wait() == 0);
}

TEST_CASE("validation passes what was moved and finds a byte that was not", "[offload]") {
  TestStream on;
  const testing::TemporaryDirectory folder;
  const std::string path = in(folder, "t");
  const Tensor tensor = numbers(5000, 0, on.stream);
  AioHandle h;
  h.pwrite(tensor, path, {.validate = true});
  h.pread(tensor, path, {.validate = true, .async = true});
  CHECK(h.wait() == 1);
  std::vector<std::unique_ptr<IoEngine>> engines;
  engines.push_back(std::make_unique<LyingEngine>());
  TensorIo io(std::make_unique<AsyncIo>(std::move(engines), IoOptions{}), {});
  const auto file = std::make_shared<IoFile>(IoFile::open_cached(path, OpenMode::kRead));
  io.begin_read(zeros(5000, on.stream), file, 0, Validate::kYes);
  CHECK_THROWS_WITH(io.wait(), Catch::Contains("differ first at byte"));
  io.begin_read(zeros(5000, on.stream), file, 0);
  CHECK(io.wait() == 1);
}

TEST_CASE("locked tensors live as long as anybody has them", "[offload]") {
  TestStream on;
  const testing::TemporaryDirectory folder;
  Tensor kept;
  {
    AioHandle h;
    const Tensor tensor = h.new_cpu_locked_tensor(1000, DType::kI32);
    CHECK(tensor.numel() == 1000);
    std::iota(tensor.data<int32_t>(), tensor.data<int32_t>() + 1000, 0);
    h.async_pwrite(tensor, in(folder, "t"));
    CHECK_THROWS_WITH(h.free_cpu_locked_tensor(tensor), Catch::Contains("wait() first"));
    CHECK(h.wait() == 1);
    CHECK(h.free_cpu_locked_tensor(tensor));
    CHECK_FALSE(h.free_cpu_locked_tensor(tensor));
    CHECK_FALSE(h.free_cpu_locked_tensor(zeros(1, on.stream)));
    kept = h.new_cpu_locked_tensor(1000, DType::kI32);
    h.sync_pread(kept, in(folder, "t"));
  }
  CHECK(same(kept, numbers(1000, 0, on.stream)));
}

TEST_CASE("a handle that goes waits for what is under way", "[offload]") {
  TestStream on;
  const testing::TemporaryDirectory folder;
  const Tensor tensor = numbers(100'000, 1, on.stream);
  { AioHandle().async_pwrite(tensor, in(folder, "t")); }
  const Tensor back = zeros(100'000, on.stream);
  AioHandle().sync_pread(back, in(folder, "t"));
  CHECK(same(tensor, back));
}

}  // namespace ds
