// TokenCache: ids of large texts in files, so that a text is tokenised once: by one process of the
// host, whose ranks wait for it, and not again by later runs. What is kept is found by content: by
// the digest of the text, of the tokenizer and of what else decides about the ids. It is checked
// when it is opened, and what is damaged is made anew.
//
// In the folder: KEY/000000.tokens and so on (data/cache/token_segment.h), KEY.lock, and, in
// sources/, the digests of files that nobody has touched since (their size, times and inode).
// All of it may be deleted whenever no run begins.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "data/cache/file_lock.h"
#include "data/cache/token_segment.h"
#include "data/tokens/text_memory.h"
#include "data/tokens/text_tokens.h"

namespace ds {

// Texts whose ids are kept together, each encoded by itself: one that is large, or small ones that
// follow each other.
struct TextsToKeep {
  struct Text {
    std::string path{};
    Compression compression = Compression::kNone;
  };
  std::vector<Text> texts{};
  const Tokenizer& tokenizer;
  const TextOptions& options;
};

// How far texts are.
struct TokenizingProgress {
  enum class Work {
    kDigest,    // its bytes are read, to find what is kept of it
    kTokenise,  // its ids are made
    kKept,      // they were made before, and are intact
    kWait       // for another process that makes them
  };
  Work work = Work::kTokenise;
  std::string path{};       // of several texts: the first, the last, and how many
  int64_t done_bytes = 0;   // of the files; of waiting: how often it was looked
  int64_t total_bytes = 0;  // of the files
  int64_t tokens = 0;
  bool is_end = false;
};

class TokenCache {
 public:
  struct Options {
    std::string folder{};
    // Fewer are not worth it: every rank tokenises them in memory. Files that are smaller are kept
    // together, where there are so many of them.
    int64_t least_bytes = kLeastKeptText;
    int threads = 1;  // that encode, the one that opens among them
    // Called by the thread that opens, many times a second.
    std::function<void(const TokenizingProgress&)> on_progress = [](const TokenizingProgress&) {};
    // A segment ends after this much of the file; that of large files is larger.
    int64_t segment_bytes = int64_t{16} << 20;
    // Called where nothing can be made in the folder, which nobody asked for: ids are held in
    // memory then. Empty: that is a ConfigError.
    std::function<void(const std::string& why)> on_no_folder = nullptr;
  };

  // The files of the cache; it outlives the cache and what that opens.
  TokenCache(FileSystem& files, Options options);

  // Whether so much text is worth keeping, in one file or several.
  bool wants(int64_t text_bytes) const { return text_bytes >= options_.least_bytes; }
  // How much of small files is kept together.
  int64_t bytes_together() const { return 4 * options_.least_bytes; }

  // The texts' ids, made now unless they are kept; null where they are to be held in memory.
  // DataError for what is no text; DiskFull and IoError with the folder and what to do. Waits as
  // long as another process makes them.
  std::shared_ptr<const TokenSource> open(FileSystem& inputs, const TextsToKeep& texts);

 private:
  class Opening;
  bool has_folder();

  FileSystem& files_;
  const Options options_;
  bool has_no_folder_ = false;  // it was told
  std::vector<FileLock> kept_;  // shared, as long as this: nobody makes anew what is being read
};

// Returns the folder of this cache among a user's caches: $XDG_CACHE_HOME/dslaunch/tokens or
// ~/.cache/dslaunch/tokens; empty: there is none.
std::string default_token_cache();

}  // namespace ds
