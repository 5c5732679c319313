// How long one thread takes to encode the lines of a text: tokenize_vs_tokenizers.py compares it
// with the reference implementation.
// usage: tokenizer_bench TOKENIZER TEXT
#include <fmt/format.h>

#include <chrono>
#include <string_view>
#include <vector>

#include "core/status/error.h"
#include "data/tokenizer/tokenizer.h"

namespace {

int run(const char* name, const char* path) {
  ds::RealFileSystem files;
  const auto tokenizer = ds::make_tokenizer(files, name);
  const std::string text = files.read_text(path, int64_t{1} << 32);
  const auto begun = std::chrono::steady_clock::now();
  std::vector<int32_t> ids;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.size(), text.find('\n', at));
    tokenizer->encode_part(std::string_view(text).substr(at, end - at), {}, ids);
    at = end + 1;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  fmt::print("{} {}\n", took.count(), ids.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    return run(argv[1], argv[2]);
  } catch (const ds::Error& error) {
    fmt::print(stderr, "tokenizer_bench: {}\n", error.what());
    return 1;
  }
}
