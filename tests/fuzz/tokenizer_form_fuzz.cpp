// Fuzzes the forms of tokenizers that are no tokenizer.json: the first byte says which one the
// others are a file of. Beyond 127 it also says that a tokenizer_config.json lies beside it, of as
// many bytes as the next two say, which come before the file. An accepted one encodes and decodes a
// text.
#include <algorithm>
#include <array>

#include "data/tokenizer/tokenizer.h"
#include "tests/fuzz/one_input.h"

namespace {

// Long enough that what costs the square of a text's length is beyond the time of one input.
constexpr size_t kRun = size_t{1} << 17;

// The texts: one of everything, and a long run of the last byte of the input where that is ASCII.
void encode_and_decode(const ds::Tokenizer& tokenizer, uint8_t last) {
  tokenizer.decode(tokenizer.encode("ab  it's 12 \xc3\xa9\n<s> \xe2\x96\x81 a<|endoftext|>"));
  if (last < 0x80) tokenizer.decode(tokenizer.encode(std::string(kRun, static_cast<char>(last))));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static constexpr std::array kNames{"/tokenizer.model", "/cl100k_base.tiktoken", "/tekken.json",
                                     "/qwen.tiktoken"};
  if (size == 0) return 0;
  const std::string path = kNames[data[0] % kNames.size()];
  std::span<const std::byte> file = ds::fuzz::bytes_of(data + 1, size - 1);
  ds::MemoryFileSystem fs;
  if (data[0] > 127 && size > 3) {
    const size_t said = size_t{data[1]} | size_t{data[2]} << 8;
    file = file.subspan(2);
    const size_t beside = std::min(said, file.size());
    ds::fuzz::put(fs, "/tokenizer_config.json", file.first(beside));
    file = file.subspan(beside);
  }
  ds::fuzz::put(fs, path, file);
  ds::fuzz::expect_refusal_or_success(
      [&] { encode_and_decode(*ds::load_tokenizer(fs, path), data[size - 1]); });
  return 0;
}
