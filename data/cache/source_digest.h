// The digest of a file that is read, remembered as long as nobody has touched the file: its device,
// inode, size and times, of which the time of the last change of the inode is set by every write
// and by whoever sets the others.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/files/file.h"
#include "data/text/stream_digest.h"

namespace ds {

// Who a file is and when it was touched last; equal for a file that nobody has touched.
struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t bytes = 0;
  int64_t modified_ns = 0, changed_ns = 0;  // since 1970
  bool operator==(const FileStamp&) const = default;
};
// Nothing where the system has no such file.
std::optional<FileStamp> stamp_of(const std::string& path);

// One line of text, and what it says; nothing for any other text. (pure)
std::string memo_text(const FileStamp& stamp, const Digest& digest);
std::optional<Digest> remembered(std::string_view memo, const FileStamp& stamp);

// Reads the file through. `on_bytes` is told how many bytes were read so far. IoError, and what
// File::read throws.
Digest digest_of_file(const File& file, const std::function<void(int64_t bytes)>& on_bytes);

}  // namespace ds
