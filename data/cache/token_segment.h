// A file with some of a text's ids, as a cache of tokens keeps them: 104 bytes of header, then the
// ids as little-endian integers of 1, 2 or 4 bytes. It comes to be as a whole (written under
// another name, synced, renamed) and says where in the text the next one goes on, so that a process
// that is killed leaves what it has done to the next.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "data/text/stream_digest.h"
#include "data/tokens/text_tokens.h"

namespace ds {

// What a segment is of. Two texts with the same key have the same ids.
struct TokenKey {
  Digest digest{};
  int token_bytes = 4;
};

struct TokenSegment {
  int64_t tokens = 0;
  TextPlace next{};  // where the next segment begins; the end: there is none
  Digest digest{};   // of the ids as they lie in the file
};

// The header of a file that has the size it says and is of this key; nothing for any other file, or
// where there is none.
std::optional<TokenSegment> read_segment(FileSystem& files, const std::string& path,
                                         const TokenKey& key);
// Whether the ids are those that were written. IoError where they cannot be read.
bool is_intact(FileSystem& files, const std::string& path, const TokenKey& key,
               const TokenSegment& segment);
std::shared_ptr<const TokenSource> open_segment(FileSystem& files, const std::string& path,
                                                const TokenKey& key);

// Writes one. Confined to one thread; one that is not finished leaves a file with another name,
// which the next one of this path replaces.
class SegmentWriter {
 public:
  SegmentWriter(FileSystem& files, std::string path, const TokenKey& key);
  void add(std::span<const int32_t> ids);
  int64_t tokens() const { return tokens_; }
  // DiskFull, IoError.
  void finish(const TextPlace& next);

 private:
  void flush();

  FileSystem& files_;
  const std::string path_;
  const TokenKey key_;
  std::unique_ptr<File> file_;
  std::vector<std::byte> buffer_;
  StreamDigest digest_;
  int64_t written_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace ds
