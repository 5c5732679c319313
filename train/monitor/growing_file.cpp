#include "train/monitor/growing_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/values/index.h"

namespace ds {
namespace {

constexpr int64_t kMostKept = int64_t{1} << 30;  // bytes of a file whose lines are looked through

std::string kept_lines(const std::string& text,
                       const std::function<bool(std::string_view)>& is_kept) {
  std::string kept;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (is_kept(line)) kept.append(line).append("\n");
    begin = end + 1;
  }
  return kept;
}

}  // namespace

void GrowingFile::keep_lines(std::function<bool(std::string_view)> is_kept) {
  is_kept_ = std::move(is_kept);
}

void GrowingFile::open() {
  RealFileSystem files;
  files.make_directories(parent_directory(path_));
  if (is_kept_ && files.exists(path_)) {
    const std::string kept = kept_lines(files.read_text(path_, kMostKept), is_kept_);
    files.write_text_atomically(path_, kept);
    written_ = narrow<int64_t>(kept.size());
  }
  const int fresh = is_kept_ ? 0 : O_TRUNC;
  Fd fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | fresh, 0666));
  if (!fd.valid()) throw_io_error("open", path_, errno);
  if (written_ == 0) waiting_.insert(0, head_);
  fd_ = std::move(fd);
}

void GrowingFile::flush() {
  if (!fd_.valid()) open();
  if (waiting_.empty()) return;
  write_fully(fd_.get(), written_, std::as_bytes(std::span(waiting_)), path_);
  written_ += narrow<int64_t>(waiting_.size());
  waiting_.clear();
}

}  // namespace ds
