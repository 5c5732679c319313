// Fuzzes tokenizer.json: an accepted one encodes and decodes a text without losing a byte it kept.
#include "data/tokenizer/tokenizer.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ds::MemoryFileSystem fs;
  ds::fuzz::put(fs, "/tokenizer.json", ds::fuzz::bytes_of(data, size));
  ds::fuzz::expect_refusal_or_success([&] {
    const auto tokenizer = ds::load_tokenizer(fs, "/tokenizer.json");
    tokenizer->decode(tokenizer->encode("ab  it's 12 \xc3\xa9\n<|endoftext|>"));
  });
  return 0;
}
