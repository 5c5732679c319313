// Ids of texts, made in bounded memory and kept: the same as those of the whole text, made once,
// begun anew where a process was killed, and made again where what is kept is damaged.
#include "data/cache/token_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>

#include "core/files/input_files.h"
#include "core/values/index.h"
#include "data/cache/source_digest.h"
#include "tests/data/compressed.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/golden.h"

using namespace ds;
namespace fs = std::filesystem;

namespace {

using Work = TokenizingProgress::Work;

// Some megabytes in which no two lines are alike: more than one buffer of three threads.
std::string large_text() {
  std::string out;
  for (int i = 0; out.size() < (size_t{7} << 20); ++i) {
    out += fmt::format("Line {} — it's number {:x}, \"naïve\" 漢字{}\n", i, i * 7919, i % 13);
    if (i % 50 == 0) out += "\n   \t \n";
  }
  return out;
}

std::vector<int32_t> ids_of(const TokenSource& source) {
  std::vector<int32_t> out(static_cast<size_t>(source.size()));
  source.read(0, out);
  return out;
}

// A folder with a text, and caches over it.
class Place {
 public:
  Place() { put("text.txt", large_text()); }

  void put(const std::string& name, std::string_view content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    // A file that was touched just now is read again, since its times may not show a change.
    struct timespec times[2] = {{.tv_sec = 1'000'000, .tv_nsec = 0},
                                {.tv_sec = 1'000'000, .tv_nsec = 0}};
    ::utimensat(AT_FDCWD, path(name).c_str(), times, 0);
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  fs::path cache() const { return folder_.path() / "cache"; }

  TokenCache::Options options(int threads = 1) {
    return {.folder = cache().string(),
            .least_bytes = 0,
            .threads = threads,
            .on_progress = [this](const TokenizingProgress& p) { seen_.push_back(p); },
            .segment_bytes = int64_t{1} << 20};
  }
  std::shared_ptr<const TokenSource> open(const std::string& name, TokenCache& cache,
                                          const TextOptions& options = {}) {
    seen_.clear();
    const std::string file = path(name);
    const std::string head = real_.read_text(file, int64_t{1} << 30).substr(0, 4);
    return cache.open(real_, {{{file, compression_of(head)}}, *tokenizer_, options});
  }
  std::vector<int32_t> ids(const std::string& name, const TextOptions& options = {},
                           int threads = 1) {
    TokenCache cache(real_, this->options(threads));
    return ids_of(*open(name, cache, options));
  }
  bool has_made() const {
    return std::ranges::any_of(seen_, [](const auto& p) { return p.work == Work::kTokenise; });
  }
  std::vector<fs::path> segments() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(cache())) {
      if (entry.path().extension() == ".tokens") out.push_back(entry.path());
    }
    std::ranges::sort(out);
    return out;
  }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::vector<TokenizingProgress>& seen() const { return seen_; }
  void forget() { seen_.clear(); }
  RealFileSystem& real() { return real_; }

 private:
  testing::TemporaryDirectory folder_;
  RealFileSystem real_;
  std::unique_ptr<Tokenizer> tokenizer_ =
      load_tokenizer(real_, testing::source_directory() + "/tests/data/tokenizer/golden/gpt2.json");
  std::vector<TokenizingProgress> seen_;
};

void flip(const fs::path& path, int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(offset);
  file.put(byte);
}

}  // namespace

TEST_CASE("ids that are kept are those of the whole text, made once", "[data]") {
  Place place;
  const std::vector<int32_t> expected = place.tokenizer().encode(large_text());
  CHECK(place.ids("text.txt") == expected);
  CHECK(place.has_made());
  CHECK(place.seen().back().is_end);
  CHECK(place.seen().back().tokens == std::ssize(expected));
  CHECK(place.segments().size() > 2);
  CHECK(place.ids("text.txt") == expected);
  CHECK_FALSE(place.has_made());
  CHECK(place.seen().back().work == Work::kKept);
  // Another file with the same content has the same ids, and other words of a configuration do not.
  place.put("copy.txt", large_text());
  CHECK(place.ids("copy.txt") == expected);
  CHECK_FALSE(place.has_made());
  CHECK(place.ids("copy.txt", {.after_text_file = {"\n"}}).size() == expected.size() + 1);
  CHECK(place.has_made());
  CHECK(place.ids("text.txt", {.tokenizer_digest = "another"}) == expected);
  CHECK(place.has_made());
}

TEST_CASE("ids do not depend on how many threads make them", "[data]") {
  Place place;
  // No line ends near where texts are cut for threads, and pieces that reach over it.
  const std::string one_line(size_t{5} << 18, 'x');
  const std::string spaces = large_text() + std::string(size_t{1} << 20, ' ') + large_text();
  for (const std::string& text : {large_text(), one_line, spaces}) {
    place.put("text.txt", text);
    const std::vector<int32_t> expected = place.tokenizer().encode(text);
    for (const int threads : {1, 2, 3}) {
      fs::remove_all(place.cache());
      CHECK(place.ids("text.txt", {}, threads) == expected);
    }
  }
}

TEST_CASE("JSON lines and compressed texts are kept, too, with their separators", "[data]") {
  Place place;
  std::string lines;
  std::vector<int32_t> expected;
  const std::vector<int32_t> separator = place.tokenizer().encode("\n");
  for (int i = 0; lines.size() < (size_t{5} << 20); ++i) {
    const std::string text = fmt::format("document {} of {}", i, i * 31);
    lines += fmt::format("{{\"text\": \"{}\"}}\n", text);
    const std::vector<int32_t> ids = place.tokenizer().encode(text);
    expected.insert(expected.end(), ids.begin(), ids.end());
    expected.insert(expected.end(), separator.begin(), separator.end());
  }
  place.put("a.jsonl", lines);
  place.put("b.jsonl.gz", testing::gzip(lines));
  place.put("c.txt.zst", testing::zstd(large_text()));
  CHECK(place.ids("a.jsonl") == expected);
  CHECK(place.ids("b.jsonl.gz") == expected);
  CHECK(place.ids("c.txt.zst") == place.tokenizer().encode(large_text()));
  CHECK(place.ids("b.jsonl.gz") == expected);
  CHECK_FALSE(place.has_made());
}

TEST_CASE("documents of JSON lines are counted, also where a killed process had begun", "[data]") {
  Place place;
  std::string lines;
  int64_t count = 0;
  for (; lines.size() < (size_t{5} << 20); ++count) {
    lines += fmt::format("{{\"text\": \"document {} of {}\"}}\n", count, count * 31);
    if (count % 7 == 0) lines += "\n";
  }
  place.put("a.jsonl", lines);
  const auto documents = [&] {
    TokenCache cache(place.real(), place.options());
    return place.open("a.jsonl", cache)->documents();
  };
  CHECK(documents() == count);
  const std::vector<fs::path> all = place.segments();
  REQUIRE(all.size() > 1);
  for (size_t i = 1; i < all.size(); ++i) fs::remove(all[i]);
  CHECK(documents() == count);
  CHECK(place.has_made());
  CHECK(documents() == count);
  CHECK_FALSE(place.has_made());
}

TEST_CASE("many small texts are kept together, each encoded by itself", "[data]") {
  Place place;
  std::vector<std::string> paths;
  std::vector<int32_t> expected;
  const auto expect = [&](const std::string& text) {
    const std::vector<int32_t> ids = place.tokenizer().encode(text);
    expected.insert(expected.end(), ids.begin(), ids.end());
  };
  for (int i = 0; i < 60; ++i) {
    const std::string text = large_text().substr(to_size(i) * 977 * 3, 20000);
    std::string valid = text.substr(text.find('\n') + 1);
    valid.resize(valid.rfind('\n'));  // no newline at its end, so that a border is told from none
    const std::string name = fmt::format("{:02}{}", i, i % 3 == 0 ? ".txt.gz" : ".txt");
    place.put(name, i % 3 == 0 ? testing::gzip(valid) : valid);
    paths.push_back(place.path(name));
    expect(valid);
  }
  place.put("60.jsonl", "{\"text\": \"one\"}\n\n{\"text\": \"two\"}\n");
  paths.push_back(place.path("60.jsonl"));
  for (const char* text : {"one", "\n", "two", "\n"}) expect(text);

  TokenCache::Options options = place.options(2);
  options.least_bytes = int64_t{100} << 10;  // 400 KiB together
  const auto open = [&] {
    place.forget();
    TokenCache cache(place.real(), options);
    return ids_of(*open_text(place.real(), paths, place.tokenizer(), {.cache = &cache}));
  };
  CHECK(open() == expected);
  CHECK(place.has_made());
  const size_t kept = place.segments().size();
  CHECK(kept > 2);
  CHECK(kept < 12);
  {
    TokenCache cache(place.real(), options);
    CHECK(open_text(place.real(), paths, place.tokenizer(), {.cache = &cache})->documents() == 62);
  }
  place.forget();
  CHECK(open() == expected);
  CHECK_FALSE(place.has_made());

  // Another text in one of them: those beside it are made again, and no others.
  const auto size = fs::file_size(place.path("41.txt"));
  place.put("41.txt", std::string(size, 'x'));
  const auto changed = open();
  CHECK(changed != expected);
  CHECK(place.segments().size() == kept + 1);
  place.put("43.txt", "\xef\xbb\xbf");
  CHECK_THROWS_WITH(open(), Catch::Contains("43.txt: there is no text in it"));
  place.put("43.txt", "There is again.");
  place.put("60.jsonl", "\n\n");  // the last one of its group
  for (int trial = 0; trial < 2; ++trial) {
    CHECK_THROWS_WITH(open(), Catch::Contains("60.jsonl: there is no text in it"));
  }

  // Few of them are held in memory.
  paths.resize(3);
  place.forget();
  CHECK(open().size() < expected.size());
  CHECK(place.seen().empty());
}

TEST_CASE("a process that is killed leaves what it has made to the next", "[data]") {
  Place place;
  const std::vector<int32_t> expected = place.ids("text.txt");
  const std::vector<fs::path> all = place.segments();
  REQUIRE(all.size() > 2);
  for (size_t i = all.size() / 2; i < all.size(); ++i) fs::remove(all[i]);
  std::ofstream(all.back().string() + ".part") << "half a segment";
  const auto kept_at = fs::last_write_time(all.front());
  CHECK(place.ids("text.txt") == expected);
  CHECK(place.has_made());
  CHECK(fs::last_write_time(all.front()) == kept_at);
  const auto first = std::ranges::find(place.seen(), Work::kTokenise, &TokenizingProgress::work);
  CHECK(first->tokens > std::ssize(expected) / 4);  // it did not begin anew
}

TEST_CASE("what is damaged is found and made again", "[data]") {
  Place place;
  const std::vector<int32_t> expected = place.ids("text.txt");
  const std::vector<fs::path> all = place.segments();
  const auto size = [&] { return static_cast<int64_t>(fs::file_size(all[1])); };
  for (const int64_t offset : {0, 9, 40, 100, -1}) {
    CAPTURE(offset);
    flip(all[1], offset < 0 ? size() + offset : offset);
    CHECK(place.ids("text.txt") == expected);
    CHECK(place.has_made());
  }
  fs::resize_file(all[1], static_cast<uintmax_t>(size() - 2));
  CHECK(place.ids("text.txt") == expected);
  CHECK(place.has_made());
}

TEST_CASE("a text that has changed has other ids, whatever its size and times say", "[data]") {
  Place place;
  std::string text = large_text();
  const std::vector<int32_t> before = place.ids("text.txt");
  text[text.size() / 2] = text[text.size() / 2] == 'x' ? 'y' : 'x';
  place.put("text.txt", text);  // with the same size, and the times are set back
  CHECK(place.ids("text.txt") == place.tokenizer().encode(text));
  CHECK(place.has_made());
}

TEST_CASE("who comes while ids are made waits for them", "[data]") {
  Place place;
  const std::vector<int32_t> expected = place.tokenizer().encode(large_text());
  std::promise<void> begun;
  std::promise<void> waited;
  bool has_begun = false, has_waited = false;
  TokenCache::Options first = place.options(), second = place.options();
  first.on_progress = [&](const TokenizingProgress& p) {
    if (p.work != Work::kTokenise || std::exchange(has_begun, true)) return;
    begun.set_value();
    waited.get_future().wait();
  };
  second.on_progress = [&](const TokenizingProgress& p) {
    if (p.work == Work::kWait && !std::exchange(has_waited, true)) waited.set_value();
    CHECK(p.work != Work::kTokenise);
  };
  const std::string path = place.path("text.txt");
  const TextOptions options;
  const TextsToKeep text{{{path, Compression::kNone}}, place.tokenizer(), options};
  TokenCache one(place.real(), first), other(place.real(), second);
  auto made = std::async(std::launch::async, [&] { return one.open(place.real(), text); });
  begun.get_future().wait();
  CHECK(ids_of(*other.open(place.real(), text)) == expected);
  CHECK(ids_of(*made.get()) == expected);
  CHECK(has_waited);
}

TEST_CASE("a text that is refused is refused by file and place, and nothing is called whole",
          "[data]") {
  Place place;
  std::string text = large_text();
  text.insert(text.size() - 100, "\xff");
  place.put("bad.txt", text);
  for (int trial = 0; trial < 2; ++trial) {
    CHECK_THROWS_WITH(place.ids("bad.txt"),
                      Catch::Contains("bad.txt: from byte") && Catch::Contains("invalid UTF-8"));
  }
  place.put("bad.jsonl", "{\"text\": \"a\"}\n{\"text\": 1}\n");
  CHECK_THROWS_WITH(place.ids("bad.jsonl"), Catch::Contains("bad.jsonl:2: "));
}

TEST_CASE("a folder where nothing can be made is an error, or memory is taken", "[data]") {
  Place place;
  place.put("no_folder", "a file");
  TokenCache::Options options = place.options();
  options.folder = place.path("no_folder");
  {
    TokenCache cache(place.real(), options);
    CHECK_THROWS_WITH(place.open("text.txt", cache), Catch::Contains("data.cache_folder: "));
  }
  std::string why;
  options.on_no_folder = [&](const std::string& words) { why = words; };
  TokenCache cache(place.real(), options);
  CHECK(place.open("text.txt", cache) == nullptr);
  CHECK_THAT(why, Catch::Contains("no_folder"));
}

TEST_CASE("a digest is remembered for the very file it is of", "[data]") {
  const FileStamp stamp{.device = 1, .inode = 2, .bytes = 3, .modified_ns = 4, .changed_ns = 5};
  Digest digest{};
  digest.fill(std::byte{0xab});
  const std::string memo = memo_text(stamp, digest);
  CHECK(remembered(memo, stamp) == digest);
  for (FileStamp other :
       {FileStamp{9, 2, 3, 4, 5}, FileStamp{1, 9, 3, 4, 5}, FileStamp{1, 2, 9, 4, 5},
        FileStamp{1, 2, 3, 9, 5}, FileStamp{1, 2, 3, 4, 9}}) {
    CHECK_FALSE(remembered(memo, other));
  }
  for (size_t cut = 0; cut < memo.size(); ++cut)
    CHECK_FALSE(remembered(memo.substr(0, cut), stamp));
  CHECK_FALSE(remembered(memo + " ", stamp));
  CHECK_FALSE(remembered(memo.substr(0, memo.size() - 2) + "g\n", stamp));
}
