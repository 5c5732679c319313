// GrowingFile: a file that only grows, of which a part that could not be written is written the
// next time. It makes its folders itself.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/files/file.h"

namespace ds {

class GrowingFile {
 public:
  // Opened, or made, by the first flush().
  explicit GrowingFile(std::string path) : path_(std::move(path)) {}

  // Before the first flush(): what is there stays as far as `is_kept` holds for its lines, those
  // that are not whole go. Without this call the file begins empty.
  void keep_lines(std::function<bool(std::string_view line)> is_kept);
  // Before the first flush(): how a file begins that has nothing yet.
  void head(std::string text) { head_ = std::move(text); }

  const std::string& path() const { return path_; }
  void add(std::string_view bytes) { waiting_ += bytes; }
  std::string& waiting() { return waiting_; }  // to be added to
  // IoError; what was not written waits.
  void flush();

 private:
  void open();

  const std::string path_;
  std::function<bool(std::string_view)> is_kept_;
  std::string head_;
  Fd fd_;
  int64_t written_ = 0;
  std::string waiting_;
};

}  // namespace ds
