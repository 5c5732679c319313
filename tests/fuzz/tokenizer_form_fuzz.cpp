// Fuzzes the forms of tokenizers that are no tokenizer.json: the first byte says which one the
// others are a file of. An accepted one encodes and decodes a text.
#include <array>

#include "data/tokenizer/tokenizer.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static constexpr std::array kNames{"/tokenizer.model", "/cl100k_base.tiktoken", "/tekken.json"};
  if (size == 0) return 0;
  const std::string path = kNames[data[0] % kNames.size()];
  ds::MemoryFileSystem fs;
  ds::fuzz::put(fs, path, ds::fuzz::bytes_of(data + 1, size - 1));
  ds::fuzz::expect_refusal_or_success([&] {
    const auto tokenizer = ds::load_tokenizer(fs, path);
    tokenizer->decode(tokenizer->encode("ab  it's 12 \xc3\xa9\n<s> \xe2\x96\x81 a<|endoftext|>"));
  });
  return 0;
}
