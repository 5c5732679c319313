#include "data/cache/token_cache.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "core/files/home.h"
#include "core/files/watched_files.h"
#include "core/values/index.h"
#include "data/cache/source_digest.h"
#include "data/text/path_pattern.h"
#include "data/tokens/token_parts.h"

namespace ds {
namespace {

using Work = TokenizingProgress::Work;

// What decides about ids but for the text: grows by one when the same key would have others.
constexpr int kIdsVersion = 2;
constexpr int64_t kMostSegments = 64;  // of a file that is not compressed
constexpr auto kLookAgain = std::chrono::milliseconds(50);
// A change within one tick of a file system's clock does not show in the times of a file.
constexpr int64_t kSettled = 2'000'000'000;

Digest digest_of(const std::string& text) { return xxh3_128(std::as_bytes(std::span(text))); }

// One text by its path.
std::string name_of(const TextsToKeep& kept) {
  return called(kept.texts.front().path, kept.texts.back().path, kept.texts.size());
}

// Returns a stamp that changes, for several files, with the stamp of each; nothing if one has none.
std::optional<FileStamp> stamp_of(const TextsToKeep& kept) {
  if (kept.texts.size() == 1) return ds::stamp_of(kept.texts.front().path);
  FileStamp all;
  std::string each;
  for (const TextsToKeep::Text& text : kept.texts) {
    const std::optional<FileStamp> stamp = ds::stamp_of(text.path);
    if (!stamp) return std::nullopt;
    each += memo_text(*stamp, {});
    all.bytes += stamp->bytes;
    all.modified_ns = std::max(all.modified_ns, stamp->modified_ns);
    all.changed_ns = std::max(all.changed_ns, stamp->changed_ns);
  }
  const Digest digest = digest_of(each);
  std::memcpy(&all.inode, digest.data(), sizeof all.inode);
  return all;
}

// Parts are told apart by their lengths.
TokenKey key_of(const TextsToKeep& kept, const Digest& source) {
  const auto separator = [](const Separator& s) {
    return fmt::format("{} {}:{}", static_cast<int>(s.kind), s.text.size(), s.text);
  };
  const TextOptions& options = kept.options;
  std::string layouts;
  for (const TextsToKeep::Text& text : kept.texts) {
    layouts += std::to_string(static_cast<int>(layout_of(text.path)));
  }
  const std::string all =
      fmt::format("{} {} {} {}:{} {} {} {}", kIdsVersion, hex(source), options.tokenizer_digest,
                  options.field.size(), options.field, layouts, separator(options.after_json_line),
                  separator(options.after_text_file));
  const int64_t vocabulary = kept.tokenizer.vocab_size();
  return {.digest = digest_of(all),
          .token_bytes = vocabulary <= 256 ? 1 : (vocabulary <= 65536 ? 2 : 4)};
}

// Ids of texts, by the name of these.
class TextIds final : public TokenSource {
 public:
  TextIds(std::string path, std::vector<std::shared_ptr<const TokenSource>> segments,
          int64_t documents)
      : path_(std::move(path)), segments_(std::move(segments)), documents_(documents) {}
  int64_t size() const override { return segments_.size(); }
  std::optional<int64_t> documents() const override { return documents_; }
  void read(int64_t offset, std::span<int32_t> out) const override { segments_.read(offset, out); }
  std::string locate(int64_t token) const override {
    return fmt::format("{} at token {}", path_, token);
  }

 private:
  std::string path_;
  Concatenation segments_;
  int64_t documents_;
};

// Every segment is a file that stays open.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));  // then opening too many is the error
}

}  // namespace

class TokenCache::Opening {
 public:
  Opening(TokenCache& cache, FileSystem& inputs, const TextsToKeep& kept)
      : cache_(cache), files_(cache.files_), inputs_(inputs), kept_(kept) {
    progress_.path = name_of(kept);
  }

  std::shared_ptr<const TokenSource> run() {
    allow_many_files();
    key_ = key_of(kept_, source_digest());
    folder_ = join_path(cache_.options_.folder, hex(key_.digest));
    FileLock lock(folder_ + ".lock");
    if (await(lock, LockKind::kShared)) {
      complete();
      // The lock is given up for a moment when it becomes another one, and who takes it then looks
      // at what is kept, too.
      while (!lock.try_lock(LockKind::kShared)) std::this_thread::sleep_for(kLookAgain);
    } else {
      find_segments();
    }
    if (!next_.is_end) {
      throw IoError(fmt::format("{}: it was deleted while another run reads it; end that run first",
                                folder_));
    }
    cache_.kept_.push_back(std::move(lock));
    std::vector<std::shared_ptr<const TokenSource>> segments;
    for (size_t i = 0; i < segments_.size(); ++i) {
      segments.push_back(open_segment(files_, path_of(i), key_));
    }
    return std::make_shared<TextIds>(progress_.path, std::move(segments), next_.documents);
  }

 private:
  void tell(Work work, int64_t done, bool is_end = false) {
    progress_.work = work;
    progress_.done_bytes = done;
    progress_.is_end = is_end;
    cache_.options_.on_progress(progress_);
  }

  // True: the lock is exclusive, and what is missing is to be made here. False: it is of the other
  // kind, and somebody else has made it.
  bool await(FileLock& lock, std::optional<LockKind> otherwise) {
    for (int64_t looked = 0;; ++looked) {
      if (lock.try_lock(LockKind::kExclusive)) return true;
      if (otherwise && lock.try_lock(*otherwise)) return false;
      tell(Work::kWait, looked);
      std::this_thread::sleep_for(kLookAgain);
    }
  }

  Digest source_digest() {
    std::string place;
    for (const TextsToKeep::Text& text : kept_.texts) {
      place += (place.empty() ? "" : "\n") + std::filesystem::absolute(text.path).string();
      progress_.total_bytes += inputs_.open(text.path)->size();
    }
    const std::string memo =
        join_path(cache_.options_.folder, "sources/" + hex(ds::digest_of(place)));
    FileLock lock(memo + ".lock");
    await(lock, std::nullopt);
    stamp_ = stamp_of(kept_);
    if (stamp_ && files_.exists(memo)) {
      constexpr int64_t kLongest = 4096;
      if (const auto known = remembered(files_.read_text(memo, kLongest), *stamp_)) return *known;
    }
    const Digest digest = digest_of_files();
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const int64_t now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    if (stamp_ && stamp_of(kept_) == stamp_ && now_ns - stamp_->changed_ns > kSettled) {
      files_.write_text_atomically(memo, memo_text(*stamp_, digest));
    }
    return digest;
  }

  // One file's own; of several, that of theirs.
  Digest digest_of_files() {
    int64_t before = 0;
    std::string each;
    Digest digest{};
    for (const TextsToKeep::Text& text : kept_.texts) {
      const std::unique_ptr<File> file = inputs_.open(text.path);
      digest = digest_of_file(*file, [&](int64_t read) { tell(Work::kDigest, before + read); });
      before += file->size();
      each += hex(digest);
    }
    return kept_.texts.size() == 1 ? digest : ds::digest_of(each);
  }

  std::string path_of(size_t number) const {
    return join_path(folder_, fmt::format("{:06}.tokens", number));
  }

  // Those that are there, up to the first that is missing or no such file.
  void find_segments() {
    while (!next_.is_end) {
      const auto found = read_segment(files_, path_of(segments_.size()), key_);
      if (!found) return;
      segments_.push_back(*found);
      progress_.tokens += found->tokens;
      next_ = found->next;
    }
  }

  void keep(size_t segments) {
    for (size_t i = segments; i < segments_.size(); ++i) files_.remove(path_of(i));
    segments_.resize(segments);
    next_ = segments == 0 ? TextPlace{} : segments_.back().next;
    progress_.tokens = 0;
    for (const TokenSegment& segment : segments_) progress_.tokens += segment.tokens;
  }

  void complete() {
    files_.make_directories(folder_);
    find_segments();
    for (size_t i = 0; i < segments_.size(); ++i) {
      if (!is_intact(files_, path_of(i), key_, segments_[i])) keep(i);
      tell(Work::kDigest, progress_.total_bytes);
    }
    if (next_.is_end) {
      tell(Work::kKept, progress_.total_bytes, true);
    } else {
      encode_rest();
    }
  }

  void encode_rest() {
    ThreadPool pool(cache_.options_.threads);
    std::optional<SegmentWriter> writer;
    Before before;
    for (const TextsToKeep::Text& text : kept_.texts) {
      before.bytes += encode_one(text, before, &text == &kept_.texts.back(), pool, writer);
      before.documents = next_.documents;
    }
  }

  // What stands in the files that come first.
  struct Before {
    int64_t bytes = 0, documents = 0;
  };

  // A text that stands alone is cut into segments, and goes on from the last of them.
  // Returns the bytes of its file.
  int64_t encode_one(const TextsToKeep::Text& text, const Before& before, bool is_last,
                     ThreadPool& pool, std::optional<SegmentWriter>& writer) {
    const bool is_alone = kept_.texts.size() == 1;
    const int64_t segment_bytes =
        std::max(cache_.options_.segment_bytes, progress_.total_bytes / kMostSegments);
    int64_t read = 0, segment_begin = 0;
    const int64_t tokens = progress_.tokens;
    auto watched = std::make_unique<WatchedFile>(
        inputs_.open(text.path), [&read](int64_t end, int64_t /*bytes*/) { read = end; });
    const int64_t file_bytes = watched->size();
    const auto stream = open_byte_stream(std::move(watched), text.compression, INT64_MAX);
    const TextPlace from = is_alone ? next_ : TextPlace{};
    encode_text(*stream, {text.path, text.compression, kept_.tokenizer, kept_.options}, from, pool,
                [&](const IdsOfText& part, TextPlace after) {
                  if (!writer) writer.emplace(files_, path_of(segments_.size()), key_);
                  writer->add(part.ids);
                  progress_.tokens += narrow<int64_t>(part.ids.size());
                  if (after.is_end && !is_alone && progress_.tokens == tokens) {
                    throw DataError(fmt::format("{}: there is no text in it", text.path));
                  }
                  after.documents += before.documents;
                  after.is_end = after.is_end && is_last;
                  if (after.is_end || (is_alone && read - segment_begin >= segment_bytes)) {
                    if (after.is_end) require_untouched();
                    writer->finish(after);
                    segments_.push_back({.tokens = writer->tokens(), .next = after});
                    writer.reset();
                    segment_begin = read;
                  }
                  next_ = after;
                  tell(Work::kTokenise, before.bytes + read, after.is_end);
                });
    return file_bytes;
  }

  // The key is by what was read before.
  void require_untouched() {
    if (stamp_of(kept_) == stamp_) return;
    keep(0);
    throw DataError(fmt::format("{}: the text was changed while it was tokenised", progress_.path));
  }

  TokenCache& cache_;
  FileSystem& files_;
  FileSystem& inputs_;
  const TextsToKeep& kept_;
  TokenizingProgress progress_;
  std::optional<FileStamp> stamp_;
  TokenKey key_;
  std::string folder_;
  std::vector<TokenSegment> segments_;
  TextPlace next_;
};

TokenCache::TokenCache(FileSystem& files, Options options)
    : files_(files), options_(std::move(options)) {}

bool TokenCache::has_folder() {
  if (has_no_folder_) return false;
  const std::string sources = join_path(options_.folder, "sources");
  try {
    files_.make_directories(sources);
    FileLock(join_path(sources, "lock"));
  } catch (const DiskFull&) {
    throw;
  } catch (const Error& error) {
    const std::string why = fmt::format("data.cache_folder: {}", error.what());
    if (!options_.on_no_folder) throw ConfigError(why);
    has_no_folder_ = true;
    options_.on_no_folder(why);
    return false;
  }
  return true;
}

std::shared_ptr<const TokenSource> TokenCache::open(FileSystem& inputs, const TextsToKeep& texts) {
  try {
    return has_folder() ? Opening(*this, inputs, texts).run() : nullptr;
  } catch (const DiskFull& full) {
    throw DiskFull(fmt::format(
        "{}: no room for the tokens of {}; free some there, or let data.cache_folder name another "
        "folder, or \"\" to hold them in memory ({})",
        options_.folder, name_of(texts), full.what()));
  }
}

std::string default_token_cache() {
  const std::string folder = user_cache_folder();
  return folder.empty() ? "" : join_path(folder, "tokens");
}

}  // namespace ds
