// What texts take in memory: nothing where they are read in place, ids where they are held, buffers
// of threads where they are kept.
#include "data/tokens/text_memory.h"

#include "core/values/index.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TextMemory memory_of(const TextBytes& run, const TextReaders& readers) {
  return memory_of_texts(std::span(&run, 1), readers);
}

bool is(const TextMemory& memory, int64_t held, int64_t tokenizing) {
  return memory.held_bytes == held && memory.tokenizing_bytes == tokenizing;
}

}  // namespace

TEST_CASE("texts are held as ids, or kept, or read in place", "[data]") {
  const TextBytes small{.small_plain = 3 * kMiB, .small = 2 * kMiB};
  CHECK(is(memory_of(small, {}), 20 * kMiB, 0));
  CHECK(is(memory_of(small, {.takes_bytes = true}), 5 * kMiB, 0));
  CHECK(is(memory_of(small, {.takes_bytes = true, .reads_in_place = true}), 2 * kMiB, 0));

  const TextBytes large{.large_plain = 90 * kMiB, .small_plain = 3 * kMiB, .small = 2 * kMiB};
  CHECK(is(memory_of(large, {.threads = 3}), 20 * kMiB, 48 * kMiB));
  CHECK(is(memory_of(large, {.has_cache = false, .threads = 3}), 380 * kMiB, 0));
  CHECK(is(memory_of(large, {.takes_bytes = true, .reads_in_place = true}), 2 * kMiB, 0));

  // The ids of a text are made in parts, if the tokenizer can; those of JSON lines, each by itself.
  CHECK(
      is(memory_of(large, {.holds_texts = true, .threads = 3}), 20 * kMiB, (48 + 12 * 93) * kMiB));
  CHECK(is(memory_of({.large = 90 * kMiB}, {.holds_texts = true}), 0, 16 * kMiB));

  const TextBytes many{.small_plain = 15 * kMiB, .small = kMiB};
  CHECK(is(memory_of(many, {.threads = 2}), 0, 32 * kMiB));
  CHECK(is(memory_of(many, {.has_cache = false}), 64 * kMiB, 0));
  CHECK(is(memory_of({}, {}), 0, 0));
}

TEST_CASE("whether small texts are many is asked of each run of them", "[data]") {
  const std::vector<TextBytes> runs{{.small = 10 * kMiB}, {.small = 10 * kMiB}, {.large = kMiB}};
  CHECK(is(memory_of_texts(runs, {.threads = 2}), 80 * kMiB, 32 * kMiB));
}

TEST_CASE("a look at texts counts them by what can be done with them", "[data]") {
  MemoryFileSystem fs;
  const auto put = [&](const std::string& path, std::string_view text) {
    fs.create(path)->write(0, std::as_bytes(std::span(text)));
  };
  put("/small.txt", "plain text");
  put("/large.txt", std::string(to_size(kLeastKeptText), 'x'));
  put("/lines.jsonl", "{\"text\": \"a\"}\n");
  const std::vector<std::string> paths{"/small.txt", "/large.txt", "/lines.jsonl", "/none"};
  int problems = 0;
  const DataLook look = look_at_token_sources(fs, paths, {}, [&](const Error&) { ++problems; });
  CHECK(problems == 1);
  REQUIRE(look.texts.size() == 1);
  const TextBytes& texts = look.texts[0];
  CHECK(texts.small_plain == 10);
  CHECK(texts.large_plain == kLeastKeptText);
  CHECK(texts.small == 14);
  CHECK(texts.large == 0);
}

}  // namespace ds
