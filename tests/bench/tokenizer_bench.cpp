// How long THREADS threads (1 where it is not given) take to encode a text file whose lines are
// documents: tokenize_vs_tokenizers.py compares it with the reference implementation. The second
// and third number printed are the ids and the most memory that the process held, in MiB.
// usage: tokenizer_bench TOKENIZER TEXT [THREADS]
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>

#include "core/status/error.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokens/text_tokens.h"

namespace {

int run(const char* name, const char* path, int threads) {
  ds::RealFileSystem files;
  const auto tokenizer = ds::make_tokenizer(files, name);
  const ds::TextOptions options{.after_json_line = {}};
  ds::ThreadPool pool(threads);
  const auto begun = std::chrono::steady_clock::now();
  size_t ids = 0;
  const auto count = [&](const ds::IdsOfText& text, const ds::TextPlace&) {
    ids += text.ids.size();
  };
  ds::encode_text_file(files, path,
                       {*tokenizer, options, ds::PlainText::kDocumentPerLine, pool, count});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  fmt::print("{} {} {}\n", took.count(), ids, used.ru_maxrss / 1024);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) return 2;
  try {
    return run(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 1);
  } catch (const ds::Error& error) {
    fmt::print(stderr, "tokenizer_bench: {}\n", error.what());
    return 1;
  }
}
