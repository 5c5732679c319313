// Fuzzes the llm.c shard reader and the samples made of it.
#include "data/tokens/dataset.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ds::MemoryFileSystem fs;
  // A header of 1024 bytes from three words of the input: random bytes would hardly ever pass it.
  std::vector<std::byte> shard(1024);
  const auto input = ds::fuzz::bytes_of(data, size);
  const auto head = input.first(std::min<size_t>(12, size));
  std::copy(head.begin(), head.end(), shard.begin());
  shard.insert(shard.end(), input.begin() + static_cast<ptrdiff_t>(head.size()), input.end());
  ds::fuzz::put(fs, "/f.bin", shard);
  ds::fuzz::expect_refusal_or_success([&] {
    const std::vector<std::string> paths = {"/f.bin"};
    const ds::SampleSet set(ds::open_token_sources(fs, paths, ds::ByteTokenizer()), 4, 1000);
    set.check(1 << 20);
  });
  return 0;
}
